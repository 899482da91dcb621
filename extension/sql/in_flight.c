/*
 * extension/sql/in_flight.c
 *		steno.in_flight: the statements that run now, from the in-flight entries of
 *		the rings.
 *
 * The entry and the staged record of another process are copied without a lock, by
 * the protocol of the writers that make start records (writer/announce.c): a copy
 * counts only if the entry's version was even before it and is the same after it.
 * Nothing that the owner does is delayed by that, and nothing that it writes is
 * trusted: lengths are checked in the copy.
 *
 * Who runs a statement is taken from the server's own status of its processes, which
 * has a protocol of the same kind.  The description of the session in the ring cannot
 * be read in this way: it may be in messages that the writer frees meanwhile.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "common/ip.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/xid8.h"

#include "base/compat.h"
#include "session/leader.h"
#include "sql/show.h"

/*
 * How often to copy an entry that changes meanwhile.  A session for which that is not enough runs
 * statements so short that none of them is running, or has died in the middle of a change.
 */
#define COPY_TRIES 100

PG_FUNCTION_INFO_V1(steno_sql_in_flight);

static const Oid columns[] = {
	INT4OID, TEXTOID, NAMEOID, NAMEOID, TEXTOID, INETOID, INT4OID, INT8OID, TIMESTAMPTZOID, INTERVALOID,
	TIMESTAMPTZOID, XID8OID, TEXTOID, TEXTOID, INT4OID, RECORDARRAYOID, RECORDARRAYOID, TEXTOID, INT8OID, TEXTARRAYOID,
	BOOLOID, INT4OID, INT8OID, FLOAT8OID
};

#define COLUMN_RELATIONS 15
#define COLUMN_OBJECTS 16

/* A statement that runs, as it was copied from its ring. */
typedef struct Running
{
	uint32		ring;
	uint32		pid;
	TimestampTz session;		/* when it started */
	StenoInFlight entry;
	StenoWhole	expanded;
	const StenoRecordMessage *record;	/* NULL: not staged */
	uint64		head;
	uint64		tail;
	bool		mapped;			/* substatements are known */
	uint32		substatements;
} Running;

typedef enum
{
	COPIED,
	CHANGED,					/* try again */
	IDLE
} Copied;

/*
 * Copy the entry of a ring, and the record that is staged.  room has space for the longest
 * message of a ring.
 */
static Copied
copy_statement(uint32 i, Running *r, uint8 *room)
{
	StenoRing  *ring = steno_ring_at(&steno_rings, i);
	const StenoLocal *local = (const StenoLocal *) ring->own;
	uint32		size = steno_rings.size;
	StenoTemplate templates[STENO_TEMPLATES];
	const StenoMessage *staged;
	StenoInFlight of_copy;
	uint32		offset;
	uint32		n = 0;

	r->pid = atomic_load_explicit(&ring->owner, memory_order_acquire);
	r->session = STENO_LOAD(ring->owner_start);
	if (r->pid == 0 || !steno_inflight_runs(STENO_LOAD(ring->inflight.active)))
		return IDLE;
	if (!steno_inflight_read(&ring->inflight, &r->entry))
		return CHANGED;
	if (!steno_inflight_runs(r->entry.active) || r->entry.done != 0)
		return IDLE;
	r->ring = i;
	r->tail = atomic_load(&ring->tail);
	r->head = Max(atomic_load(&ring->head), r->tail);
	/* the owner's state is in the ring's page if it could be mapped there (session/session.c) */
	r->mapped = STENO_LOAD(local->mapped);
	r->substatements = STENO_LOAD(local->substatements);
	r->record = NULL;
	if (r->entry.staged)
	{
		offset = (uint32) (r->entry.position & (size - 1));
		n = Min(size - offset, size / STENO_RING_SHARE);
		memcpy(room, steno_ring_data(&steno_rings, i) + offset, n);
		memcpy(templates, steno_ring_templates(&steno_rings, i), sizeof(templates));
	}

	/*
	 * Pairs with the release fence in steno_inflight_change: the copies are complete
	 * before these loads.
	 */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&ring->inflight.version, memory_order_relaxed) !=
		atomic_load_explicit(&r->entry.version, memory_order_relaxed) ||
		atomic_load_explicit(&ring->owner, memory_order_relaxed) != r->pid)
		return CHANGED;
	if (!r->entry.staged)
		return COPIED;
	memcpy(&of_copy, &r->entry, offsetof(StenoInFlight, text));
	of_copy.position = 0;
	staged = steno_inflight_record(&of_copy, room, n);
	/* it ends now, and its record is being completed */
	if (staged == NULL)
		return CHANGED;
	r->record = steno_message_whole(staged, templates, 0, r->entry.statement, &r->expanded);
	return COPIED;
}

/* Whether a ring's owner runs a statement, which is then in *r. */
static bool
find_running(uint32 i, Running *r, uint8 *room)
{
	int			tries;

	for (tries = 0; tries < COPY_TRIES; tries++)
	{
		Copied		copied = copy_statement(i, r, room);

		if (copied != CHANGED)
			return copied == COPIED;
		SPIN_DELAY();
	}
	return false;
}

/* ---- who runs it ---- */

/* The server's status of the process; NULL if that has ended. */
static LocalPgBackendStatus *
status_of(const Running *r)
{
	int			n = pgstat_fetch_stat_numbackends();
	int			i;

	for (i = 1; i <= n; i++)
	{
		LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(i);

		/* another process may have got the same ID */
		if (local && local->backendStatus.st_procpid == (int) r->pid &&
			local->backendStatus.st_proc_start_timestamp == r->session)
			return local;
	}
	return NULL;
}

/* A transaction ID that is in use, with its epoch. */
static uint64
whole_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xid));
}

/* Name and encoding of a database; false if it is gone. */
static bool
find_database(Oid id, NameData *name, int *encoding)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(id));
	Form_pg_database database;

	if (!HeapTupleIsValid(tuple))
		return false;
	database = (Form_pg_database) GETSTRUCT(tuple);
	*name = database->datname;
	*encoding = database->encoding;
	ReleaseSysCache(tuple);
	return true;
}

/* The client's address, as in pg_stat_activity. */
static bool
client_address(const SockAddr *a, Datum *address, int *port)
{
	char		host[NI_MAXHOST];
	char		service[NI_MAXSERV];

	if ((a->addr.ss_family != AF_INET && a->addr.ss_family != AF_INET6) ||
		pg_getnameinfo_all(&a->addr, a->salen, host, sizeof(host), service, sizeof(service),
						   NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	clean_ipv6_addr(a->addr.ss_family, host);
	*address = DirectFunctionCall1(inet_in, CStringGetDatum(host));
	*port = atoi(service);
	return true;
}

/* The name of a role or database, as it is shown; not everything that catalogs have is valid here. */
static void
set_name(NameData *to, const char *name, int encoding)
{
	StenoBytes	type = {(const uint8 *) "", 0};
	StenoBytes	bytes = {(const uint8 *) name, strlen(name)};
	const char *shown = TextDatumGetCString(steno_show_text(bytes, steno_name_encoding(type, bytes, encoding)));

	strlcpy(NameStr(*to), shown, pg_encoding_mbcliplen(steno_shown_as(), shown, strlen(shown), NAMEDATALEN - 1) + 1);
}

/* The name of a process's user; that of a dropped role, which only its session knows, unless another one has it now. */
static const char *
user_of(const Running *r, const PgBackendStatus *s)
{
	const char *name = GetUserNameFromId(s->st_userid, true);
	StenoNames	names;

	if (name != NULL || !steno_session_names(r->ring, &names) || names.user_id != s->st_userid ||
		atomic_load(&steno_ring_at(&steno_rings, r->ring)->owner) != r->pid ||
		OidIsValid(get_role_oid(names.user, true)))
		return name;
	return pstrdup(names.user);
}

/* Fill in the columns about the process; returns the encoding of its database. */
static int
put_process(const Running *r, Datum *values, bool *nulls)
{
	LocalPgBackendStatus *local = status_of(r);
	const PgBackendStatus *s = local ? &local->backendStatus : NULL;
	NameData   *user = palloc0(sizeof(NameData));
	NameData   *database = palloc0(sizeof(NameData));
	const char *user_name = s ? user_of(r, s) : NULL;
	int			encoding = PG_SQL_ASCII;
	int			port = 0;

	values[0] = Int32GetDatum(r->pid);
	values[1] = steno_show_session(r->session, r->pid);
	nulls[3] = s == NULL || !find_database(s->st_databaseid, database, &encoding);
	if (!nulls[3])
		set_name(database, pstrdup(NameStr(*database)), encoding);
	values[3] = NameGetDatum(database);
	nulls[2] = user_name == NULL;
	if (!nulls[2])
		set_name(user, user_name, encoding);
	values[2] = NameGetDatum(user);
	nulls[4] = s == NULL || s->st_appname == NULL;
	if (!nulls[4])
	{
		StenoBytes	name = {(const uint8 *) s->st_appname, strlen(s->st_appname)};

		values[4] = steno_show_text(name, encoding);
	}
	nulls[5] = nulls[6] = s == NULL || !client_address(&s->st_clientaddr, &values[5], &port);
	values[6] = Int32GetDatum(port);
	nulls[10] = s == NULL || s->st_xact_start_timestamp == 0;
	values[10] = TimestampTzGetDatum(nulls[10] ? 0 : s->st_xact_start_timestamp);
	nulls[11] = local == NULL || !TransactionIdIsNormal(local->backend_xid);
	if (!nulls[11])
		values[11] = UInt64GetDatum(whole_xid(local->backend_xid));
	return encoding;
}

/* ---- what it runs ---- */

/*
 * The strings of a record, which contains them (steno_message_is_whole).
 */
static void
take_strings(const StenoRecordMessage *m, StenoBytes *shape, StenoBytes *text, StenoBytes *nulls, StenoBytes *values)
{
	const uint8 *p = (const uint8 *) (m + 1);

	p += (m->m.flags & STENO_MESSAGE_PARTS) ? sizeof(StenoParts) : 0;
	p += (m->m.flags & STENO_MESSAGE_CUT) ? sizeof(StenoCut) : 0;
	p += (m->m.flags & STENO_MESSAGE_ENDING) ? sizeof(StenoEnding) : 0;
	*shape = (StenoBytes) {p, m->shape_len};
	p += m->shape_len;
	*text = (StenoBytes) {p, m->text_len != STENO_NONE32 ? m->text_len : 0};
	p += text->len;
	*nulls = (StenoBytes) {p, m->nulls_len};
	p += m->nulls_len;
	*values = (StenoBytes) {p, m->values_len};
}

/* The beginning of the text, without a character that was cut in the middle. */
static void
put_text(StenoBytes text, uint64 len, int encoding, Datum *values, bool *nulls)
{
	if (text.len < len)
		text.len = pg_encoding_mbcliplen(encoding, (const char *) text.p, (int) text.len, (int) text.len);
	nulls[17] = nulls[18] = len == 0;
	values[17] = steno_show_text(text, encoding);
	values[18] = Int64GetDatum(len);
}

/* What the staged record says. */
static void
put_record(const Running *r, const StenoShownTypes *types, int encoding, Datum *values, bool *nulls)
{
	StenoBytes	shape;
	StenoBytes	text;
	StenoBytes	null_params;
	StenoBytes	params;
	StenoShownShape parsed;
	const char *class;

	take_strings(r->record, &shape, &text, &null_params, &params);
	put_text(text, text.len, encoding, values, nulls);
	if (shape.len == 0 || !steno_shape_parse(shape, &parsed))
		return;
	class = steno_show_class_name(parsed.class);
	nulls[12] = class == NULL;
	values[12] = class ? CStringGetTextDatum(class) : (Datum) 0;
	nulls[13] = parsed.command.len == 0;
	values[13] = steno_show_text(parsed.command, PG_SQL_ASCII);
	nulls[15] = nulls[16] = false;
	values[15] = steno_show_relations(&parsed, types, encoding);
	values[16] = steno_show_objects(&parsed, types, encoding);
	nulls[19] = !(r->record->m.flags & STENO_MESSAGE_VALUES) || parsed.nparams == 0;
	if (!nulls[19])
		values[19] = steno_show_params(&parsed, null_params, params, encoding);
}

static void
put_running(ReturnSetInfo *rsinfo, const Running *r, const StenoShownTypes *types)
{
	Datum		values[lengthof(columns)] = {0};
	bool		nulls[lengthof(columns)] = {0};
	TimestampTz now = GetCurrentTimestamp();
	Interval   *running = palloc0(sizeof(Interval));
	int			encoding = put_process(r, values, nulls);

	running->time = Max(now - r->entry.time, 0);
	values[7] = Int64GetDatum(r->entry.statement);
	values[8] = TimestampTzGetDatum(r->entry.time);
	values[9] = IntervalPGetDatum(running);
	nulls[12] = nulls[13] = nulls[15] = nulls[16] = nulls[19] = true;
	nulls[14] = !r->mapped;
	values[14] = Int32GetDatum(r->substatements);
	if (r->record)
		put_record(r, types, encoding, values, nulls);
	else
	{
		StenoBytes	text = {(const uint8 *) r->entry.text, Min(r->entry.text_kept, STENO_INFLIGHT_TEXT)};

		put_text(text, Max(r->entry.text_len, text.len), encoding, values, nulls);
	}
	values[20] = BoolGetDatum(r->entry.announced == r->entry.statement);
	values[21] = Int32GetDatum(r->ring);
	values[22] = Int64GetDatum(r->head - r->tail);
	values[23] = Float8GetDatum((double) (r->head - r->tail) / steno_rings.size);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A row for each session that runs a statement. */
Datum
steno_sql_in_flight(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StenoShownTypes types;
	Running    *r = palloc(sizeof(Running));
	uint8	   *room;
	MemoryContext row;
	MemoryContext before;
	uint32		i;

	steno_rows_begin(fcinfo, lengthof(columns), columns);
	steno_shown_types(fcinfo, COLUMN_RELATIONS, COLUMN_OBJECTS, &types);
	room = palloc(steno_rings.size / STENO_RING_SHARE);
	/* sessions that have begun since the transaction first looked at them would have no names */
	pgstat_clear_backend_activity_snapshot();
	row = AllocSetContextCreate(CurrentMemoryContext, "pg_steno statement in flight", ALLOCSET_DEFAULT_SIZES);
	for (i = 0; i < steno_rings.nrings; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!find_running(i, r, room))
			continue;
		before = MemoryContextSwitchTo(row);
		put_running(rsinfo, r, &types);
		MemoryContextSwitchTo(before);
		MemoryContextReset(row);
	}
	MemoryContextDelete(row);
	return (Datum) 0;
}
