/*
 * extension/base/steno.h
 *		What every file of the extension includes: the server's types that are
 *		common, the settings, the control area, and the state of this process.
 *
 * Each folder of the extension owns one concept.  A folder may call and include
 * only what stands to its right, and itself (scripts/check-c-layers):
 *
 *		load -> sql, writer, capture -> session -> delivery -> policy -> describe
 *			 -> base -> core
 */
#ifndef STENO_H
#define STENO_H

#include "postgres.h"

/* The release.  pg_steno.control has its first two numbers; a test compares them, and all other places. */
#define STENO_VERSION "0.9.0"

/*
 * Port is laid out alike with and without GSSAPI, for the sake of extensions;
 * so that its headers need not be installed, do without.
 */
#undef ENABLE_GSS

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "datatype/timestamp.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "portability/instr_time.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "tcop/utility.h"
#include "utils/portal.h"

/* Our symbols are our own: calls among our files are direct. */
#pragma GCC visibility push(hidden)

#include "ring/clock.h"
#include "ring/message.h"
#include "ring/wake.h"

#undef unlikely
#define unlikely(x) STENO_RARELY(x)

#include "base/settings.h"
#include "base/control.h"

#include "base/local.h"
#include "base/phase.h"

#pragma GCC visibility pop

#endif							/* STENO_H */
