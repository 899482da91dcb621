/*
 * extension/session/facts.c
 *		The facts that the records of a session share: user, role, database, application, client ...
 *
 * They go into the ring as a session message before the first record, and again before any
 * record for which one of them has changed.  Readers of the trail therefore know the facts of
 * each record.
 */
#include "base/steno.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "common/ip.h"
#include "libpq/hba.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "replication/walsender.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

#include "base/client.h"
#include "base/compat.h"
#include "delivery/record.h"
#include "session/leader.h"
#include "session/role.h"
#include "session/session.h"

/* The facts in the last session message; if one changes, a new message is needed. */
static struct
{
	char		user[NAMEDATALEN];
	char		role[NAMEDATALEN];
	char		database[NAMEDATALEN];
	char		application[NAMEDATALEN];
	char		app_user[STENO_APP_MAX];
	char		app_context[STENO_APP_MAX];
}			known STENO_SESSION_DATA;

/* Facts have changed since that message. */
static bool message_due STENO_SESSION_DATA;

/*
 * These facts at the execution of statements whose records come later: of cursors, and of portals that are read
 * in parts.  Statements share it until a fact changes.
 */
struct StenoIdentity
{
	uint64		shared_by;
	char		facts[sizeof(known)];
};

static StenoIdentity *identity STENO_SESSION_DATA;	/* that of known; NULL: nobody has asked for it */

/* In a parallel worker: its leader's session and substatement, as text; otherwise empty. */
static char leader_session[STENO_SESSION_ID] STENO_SESSION_DATA;
static char leader_substatement[11] STENO_SESSION_DATA;

/*
 * Encoding of the session's texts; NULL if that is UTF-8, or the session is not
 * connected to a database yet.
 */
static const char *encoding STENO_SESSION_DATA;

#define MOST_ENCODING 14		/* the longest name of a server encoding */

static uint8 *
put_fact(uint8 *p, int key, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return p;
	*p++ = key;
	return steno_put_string(p, value);
}

/*
 * The largest body that put_session_message can make must fit into the writer's
 * copy: eleven facts with key and length, where the length of the identity takes
 * two bytes.  Only parallel workers have the two facts of a leader; their type is
 * so short that these facts and the type together take no more than the longest
 * type.
 */
StaticAssertDecl(STENO_SESSION_FACTS + 11 * 2 + 1 + BGW_MAXLEN - 1 +
				 sizeof(known) + sizeof(steno_client) - sizeof(steno_client.address) - 9 + MOST_ENCODING <=
				 STENO_SESSION_MAX &&
				 sizeof("parallel worker") + 2 * 2 + sizeof(leader_session) + sizeof(leader_substatement) <= BGW_MAXLEN &&
				 BGW_MAXLEN <= 128 && STENO_APP_MAX <= 128, "session facts fit");

/* Take a share of the present identity; NULL if out of memory. */
STENO_COLD StenoIdentity *
steno_identity_take(void)
{
	if (identity == NULL)
	{
		identity = MemoryContextAllocExtended(TopMemoryContext, sizeof(*identity), MCXT_ALLOC_NO_OOM);
		if (identity == NULL)
			return NULL;
		identity->shared_by = 1;
		memcpy(identity->facts, &known, sizeof(known));
	}
	identity->shared_by++;
	return identity;
}

STENO_COLD void
steno_identity_release(StenoIdentity **mine)
{
	StenoIdentity *i = *mine;

	*mine = NULL;
	if (i != NULL && --i->shared_by == 0)
		pfree(i);
}

static void
put_session_message(void)
{
	uint8		body[STENO_SESSION_MAX];
	uint8	   *p = body + STENO_SESSION_FACTS;
	int64		start = MyStartTimestamp;
	uint32		pid = MyProcPid;
	const char *type;

	if (identity != NULL)
		steno_identity_release(&identity);
	memcpy(body + STENO_SESSION_START, &start, sizeof(start));
	memcpy(body + STENO_SESSION_PID, &pid, sizeof(pid));
	if (MyBackendType == B_BG_WORKER && MyBgworkerEntry)
		type = MyBgworkerEntry->bgw_type;
	else
		type = GetBackendTypeDesc(MyBackendType);
	p = put_fact(p, STENO_SESSION_BACKEND_TYPE, type);
	p = put_fact(p, STENO_SESSION_USER, known.user);
	p = put_fact(p, STENO_SESSION_DATABASE, known.database);
	if (strcmp(known.role, known.user) != 0)
		p = put_fact(p, STENO_SESSION_ROLE, known.role);
	p = put_fact(p, STENO_SESSION_APPLICATION, known.application);
	p = put_fact(p, STENO_SESSION_APP_USER, known.app_user);
	p = put_fact(p, STENO_SESSION_APP_CONTEXT, known.app_context);
	p = put_fact(p, STENO_SESSION_CLIENT, steno_client.client);
	p = put_fact(p, STENO_SESSION_AUTH_METHOD, steno_client.auth_method);
	p = put_fact(p, STENO_SESSION_IDENTITY, steno_client.identity);
	p = put_fact(p, STENO_SESSION_LEADER, leader_session);
	p = put_fact(p, STENO_SESSION_LEADER_SUBSTATEMENT, leader_substatement);
	if (encoding != NULL && strlen(encoding) <= MOST_ENCODING)
		p = put_fact(p, STENO_SESSION_ENCODING, encoding);

	steno_record_describe(body, p - body);
	message_due = false;
}

/*
 * Whether a name of what all databases share can be shown without knowing the database's encoding.
 */
static bool
is_utf8(const char *name)
{
	int			len = strlen(name);

	return pg_encoding_verifymbstr(PG_UTF8, name, len) == len;
}

/*
 * The session is about to be connected to its database.  If the names of that or of the user are not
 * valid as UTF-8, its first records need the encoding, too.
 */
void
steno_facts_find_encoding(void)
{
	ScanKeyData key;
	Relation	databases;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			number;

	if ((is_utf8(known.user) && is_utf8(known.database)) || !IsTransactionState() || (am_walsender && !am_db_walsender))
		return;
	/* as the server will do */
	databases = table_open(DatabaseRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_database_datname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(known.database));
	scan = systable_beginscan(databases, DatabaseNameIndexId, criticalSharedRelcachesBuilt, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		number = ((Form_pg_database) GETSTRUCT(tuple))->encoding;
		if (number != PG_UTF8)
			encoding = pg_encoding_to_char(number);
	}
	systable_endscan(scan);
	table_close(databases, AccessShareLock);
}

/*
 * Compare a fact, and update it if it has changed.  Values are truncated to the
 * size of the fact.
 */
static bool
update_fact(char *fact, size_t size, const char *value)
{
	if (value == NULL)
		value = "";
	if (strncmp(value, fact, size - 1) == 0)
		return false;
	strlcpy(fact, value, size);
	return true;
}

/* Who this session is, for others who cannot look the names up: those of dropped roles. */
void
steno_facts_publish_names(void)
{
	StenoNames	names = {.user_id = steno_my.session_user_id, .role_id = steno_my.user_id};

	strlcpy(names.user, known.user, NAMEDATALEN);
	strlcpy(names.role, known.role, NAMEDATALEN);
	steno_leader_publish_names(&names);
}

static bool
update_roles(Oid user_id, bool failing)
{
	Oid			session_user_id;
	char		user[NAMEDATALEN];
	char		role[NAMEDATALEN];
	bool		changed;

	if (!OidIsValid(user_id) || !(failing || IsTransactionState()))
		return false;
	/* the name that the client sent is used until the role can be looked up */
	if (failing && !OidIsValid(steno_my.user_id) && known.user[0] != '\0')
		return false;
	session_user_id = GetSessionUserId();
	changed = steno_role_names_changed(failing);
	if (user_id == steno_my.user_id && session_user_id == steno_my.session_user_id && !changed)
		return false;
	steno_role_keep(user_id, session_user_id);
	if (failing)
	{
		steno_role_name_failing(user, session_user_id, "session_authorization");
		steno_role_name_failing(role, user_id, "role");
	}
	else
	{
		steno_role_name(user, session_user_id);
		steno_role_name(role, user_id);
	}
	steno_my.user_id = user_id;
	steno_my.session_user_id = session_user_id;
	changed = update_fact(known.user, sizeof(known.user), user);
	changed |= update_fact(known.role, sizeof(known.role), role);
	if (steno_my.state == STENO_READY && !steno_is_worker())
		steno_facts_publish_names();
	return changed;
}

/* A client's startup packet has the name of its database; other processes look it up once. */
static bool
update_database(void)
{
	char	   *name;

	if (known.database[0] != '\0' || !OidIsValid(MyDatabaseId) || !IsTransactionState())
		return false;
	name = get_database_name(MyDatabaseId);
	if (name == NULL)
		return false;
	strlcpy(known.database, name, NAMEDATALEN);
	return true;
}

/* The session is now connected to its database; note its encoding unless that is UTF-8. */
static bool
update_encoding(void)
{
	if (encoding != NULL || !OidIsValid(MyDatabaseId) || !IsNormalProcessingMode() ||
		GetDatabaseEncoding() == PG_UTF8)
		return false;
	encoding = GetDatabaseEncodingName();	/* a constant */
	return true;
}

/*
 * Update the facts that the application sets.  Callers call this only if
 * steno_my.application is not the address of application_name: a changed name has
 * another address, and the assignment of steno.app_user or app_context resets
 * steno_my.application.
 */
static bool
update_application(void)
{
	const char *name = application_name ? application_name : "";
	bool		changed = false;

	steno_my.application = application_name;
	/*
	 * until the client's options are processed, its application name is only in the
	 * startup packet
	 */
	if (*name == '\0' && (!OidIsValid(MyDatabaseId) || !IsNormalProcessingMode()) &&
		MyProcPort && MyProcPort->application_name)
		name = MyProcPort->application_name;
	changed |= update_fact(known.application, sizeof(known.application), name);
	changed |= update_fact(known.app_user, sizeof(known.app_user), steno_app_user);
	changed |= update_fact(known.app_context, sizeof(known.app_context), steno_app_context);
	return changed;
}

/*
 * While SET SESSION AUTHORIZATION is in effect, the end of a transaction or
 * subtransaction can undo it without any statement.  The facts are therefore
 * compared before each record, as after a change of the application's name.  So they are while a
 * name has to be looked up.
 */
static void
watch_session_user(void)
{
	if (unlikely((OidIsValid(steno_my.session_user_id) && MyProcPort != NULL &&
				  steno_my.session_user_id != GetAuthenticatedUserId()) || steno_role_names_stale()))
		steno_my.application = NULL;
}

static Oid
current_role(void)
{
	Oid			user_id;
	int			context;

	GetUserIdAndSecContext(&user_id, &context);
	return user_id;
}

/* Put a session message into the ring if a fact has changed.  failing: catalogs are not read. */
static inline void
put_if_changed(Oid user_id, bool failing)
{
	bool		changed = !steno_is_described() || message_due;

	changed |= update_roles(OidIsValid(user_id) ? user_id : current_role(), failing);
	if (!failing)
		changed |= update_database();
	changed |= update_encoding();
	changed |= update_application();
	watch_session_user();
	if (changed)
		put_session_message();
}

/*
 * Before a record: put a session message into the ring if a fact has changed.
 * user_id is the role of the statement; InvalidOid stands for the current one.
 * Catalogs are read only for a role that the session has not had recently.
 */
void
steno_session_check(Oid user_id)
{
	put_if_changed(user_id, false);
}

/*
 * The same in a failure: catalogs are not read.  user_id is the role that the
 * failed statement had at its start; InvalidOid stands for the current one.
 */
void
steno_session_failing(Oid user_id)
{
	put_if_changed(user_id, true);
}

/*
 * A transaction commits: that in which the session has begun, with all that the server sets for it
 * then, or one that may have set another role in a function.  Learn what the next statement would
 * need if it failed.
 */
void
steno_session_learn(void)
{
	if (steno_my.state == STENO_DEAD || !steno_active() || IsParallelWorker())
		return;
	message_due |= update_roles(current_role(), false);
	message_due |= update_database();
	/* the next record is to look; while the session begins, its application and encoding are not known yet */
	if (message_due || !IsNormalProcessingMode())
	{
		steno_my.application = NULL;
		steno_identity_release(&identity);
	}
}

/*
 * Before the record of a statement that was executed with this identity: describe the session with it, if that
 * is not the last one described.  True: steno_identity_described must follow the record.
 */
STENO_COLD bool
steno_identity_describe(const StenoIdentity *who)
{
	char		present[sizeof(known)];

	if (who == NULL || (steno_is_described() && !message_due && memcmp(who->facts, &known, sizeof(known)) == 0))
		return false;
	memcpy(present, &known, sizeof(known));
	memcpy(&known, who->facts, sizeof(known));
	put_session_message();
	memcpy(&known, present, sizeof(known));
	return true;
}

/*
 * The records that come next are of the present identity again.  It is described at once: that of a statement which is
 * ending may be next, and is put without a look at the session.
 */
STENO_COLD void
steno_identity_described(void)
{
	put_session_message();
}

static void
set_client_address(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_UNIX)
		steno_client.address.kind = STENO_CLIENT_LOCAL;
	else if (a->ss_family == AF_INET)
	{
		steno_client.address.kind = STENO_CLIENT_IPV4;
		memcpy(steno_client.address.address, &((const struct sockaddr_in *) a)->sin_addr, 4);
	}
	else if (a->ss_family == AF_INET6)
	{
		steno_client.address.kind = STENO_CLIENT_IPV6;
		memcpy(steno_client.address.address, &((const struct sockaddr_in6 *) a)->sin6_addr, 16);
	}
}

/* Set the facts of a client's connection, which never change. */
void
steno_facts_set_client(void)
{
	Port	   *port = MyProcPort;
	char		host[64];
	char		service[16];

	if (port == NULL)
		return;
	if (port->user_name)
		strlcpy(known.user, port->user_name, NAMEDATALEN);
	if (port->database_name)
		strlcpy(known.database, port->database_name, NAMEDATALEN);
	strlcpy(known.role, known.user, NAMEDATALEN);
	set_client_address(&port->raddr.addr);
	if (port->raddr.addr.ss_family == AF_UNIX)
		strlcpy(steno_client.client, "[local]", sizeof(steno_client.client));
	else if (pg_getnameinfo_all(&port->raddr.addr, port->raddr.salen,
								host, sizeof(host), service, sizeof(service),
								NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(steno_client.client, sizeof(steno_client.client),
				 strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, service);
}

void
steno_facts_set_authentication(void)
{
	const char *identity;

	if (MyProcPort == NULL || MyProcPort->hba == NULL)
		return;
	strlcpy(steno_client.auth_method, hba_authname(MyProcPort->hba->auth_method),
			sizeof(steno_client.auth_method));
	identity = STENO_IDENTITY(MyProcPort);
	if (identity == NULL)
		identity = "";
	/* the encoding of what another system has told is not known; it is hardly another one */
	strlcpy(steno_client.identity, identity,
			pg_encoding_mbcliplen(PG_UTF8, identity, strlen(identity), sizeof(steno_client.identity) - 1) + 1);
	steno_leader_publish(&steno_client);
}

/* In a parallel worker: whose part of a statement it executes. */
STENO_COLD void
steno_facts_set_leader(const StenoLeader *leader)
{
	steno_session_id(leader_session, leader->start, leader->pid);
	if (leader->substatement > 0)
		snprintf(leader_substatement, sizeof(leader_substatement), "%u", leader->substatement);
}
