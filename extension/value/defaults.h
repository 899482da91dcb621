/*
 * extension/value/defaults.h
 *		What is recorded does not depend on the settings of the session: values and names are made with the
 *		defaults of the settings that output functions follow.
 */
#ifndef STENO_DEFAULTS_H
#define STENO_DEFAULTS_H

#include "pgtime.h"

#pragma GCC visibility push(hidden)

/*
 * The session's own values while defaults are in force.  It is on the stack of the function that calls
 * steno_defaults_begin, and has pointers to what belongs to the settings, which do not change meanwhile.
 */
typedef struct StenoDefaults
{
	int			float_digits;
	int			date_style;
	int			date_order;
	int			interval_style;
	int			bytea;
	int			xml_binary;
	bool		quote_all;
	pg_tz	   *timezone;
	char	   *monetary;		/* NULL: not changed */
	char	   *search_path;	/* likewise */
} StenoDefaults;

extern void steno_defaults_install(void);
extern void steno_defaults_begin(StenoDefaults *session, bool names);
extern void steno_defaults_end(StenoDefaults *session);
extern const char *steno_quote_name(const char *name);
extern char *steno_quote_qualified(const char *namespace, const char *name);

#pragma GCC visibility pop

#endif							/* STENO_DEFAULTS_H */
