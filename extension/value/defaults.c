/*
 * extension/value/defaults.c
 *		The defaults of the settings that output functions follow, in force while we call such functions.
 *
 * The variables of the settings are changed directly, not through the server's functions for settings: these
 * take memory, may fail, and note changes for the end of the transaction.  Nothing here can fail.  Should the
 * code in between change such a setting, which only functions of users do, it is in a subtransaction that is
 * rolled back (value/output.c), so the setting is again what it was here before the session's value
 * returns.
 */
#include "base/steno.h"

/* the headers of ICU need not be installed */
#undef USE_ICU

#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/xml.h"

#include "base/compat.h"
#include "value/defaults.h"

/* As the server has them without a configuration; money has no amounts without that of the server. */
#define DEFAULT_FLOAT_DIGITS 1

static char default_search_path[] = "\"$user\", public";

static pg_tz *utc;
static char *server_monetary;	/* lc_monetary when the server started */

/* Called in the postmaster, whose memory all processes get. */
void
steno_defaults_install(void)
{
	/* GMT alone needs no file */
	utc = pg_tzset("GMT");
	server_monetary = MemoryContextStrdup(TopMemoryContext, locale_monetary ? locale_monetary : "C");
}

static inline bool
differs(const char *value, const char *other)
{
	return value == NULL || strcmp(value, other) != 0;
}

/*
 * Until steno_defaults_end, output functions see the defaults.  names: also those that only names of objects
 * depend on, whose change makes the server look up schemas again.
 */
void
steno_defaults_begin(StenoDefaults *session, bool names)
{
	*session = (StenoDefaults) {
		.float_digits = extra_float_digits, .date_style = DateStyle, .date_order = DateOrder,
		.interval_style = IntervalStyle, .bytea = bytea_output, .xml_binary = xmlbinary,
		.quote_all = quote_all_identifiers, .timezone = session_timezone
	};
	extra_float_digits = DEFAULT_FLOAT_DIGITS;
	DateStyle = USE_ISO_DATES;
	DateOrder = DATEORDER_MDY;
	IntervalStyle = INTSTYLE_POSTGRES;
	bytea_output = BYTEA_OUTPUT_HEX;
	xmlbinary = XMLBINARY_BASE64;
	quote_all_identifiers = false;
	session_timezone = utc;
	if (unlikely(differs(locale_monetary, server_monetary)))
	{
		session->monetary = locale_monetary;
		locale_monetary = server_monetary;
		assign_locale_monetary(locale_monetary, NULL);
	}
	if (names && unlikely(differs(namespace_search_path, default_search_path)))
	{
		session->search_path = namespace_search_path;
		namespace_search_path = default_search_path;
		assign_search_path(namespace_search_path, NULL);
	}
}

/* The session has its own values again.  After an error, this must come first; a second call does no harm. */
void
steno_defaults_end(StenoDefaults *session)
{
	extra_float_digits = session->float_digits;
	DateStyle = session->date_style;
	DateOrder = session->date_order;
	IntervalStyle = session->interval_style;
	bytea_output = session->bytea;
	xmlbinary = session->xml_binary;
	quote_all_identifiers = session->quote_all;
	session_timezone = session->timezone;
	if (unlikely(session->monetary != NULL))
	{
		locale_monetary = session->monetary;
		assign_locale_monetary(locale_monetary, NULL);
		session->monetary = NULL;
	}
	if (unlikely(session->search_path != NULL))
	{
		namespace_search_path = session->search_path;
		assign_search_path(namespace_search_path, NULL);
		session->search_path = NULL;
	}
}

/* quote_identifier, whatever quote_all_identifiers is: names are compared with those that people give. */
const char *
steno_quote_name(const char *name)
{
	bool		quote_all = quote_all_identifiers;
	const char *quoted;

	if (likely(!quote_all))
		return quote_identifier(name);
	quote_all_identifiers = false;
	PG_TRY();
	{
		quoted = quote_identifier(name);
	}
	PG_FINALLY();
	{
		quote_all_identifiers = quote_all;
	}
	PG_END_TRY();
	return quoted;
}

/* The same for quote_qualified_identifier. */
char *
steno_quote_qualified(const char *namespace, const char *name)
{
	bool		quote_all = quote_all_identifiers;
	char	   *quoted;

	if (likely(!quote_all))
		return quote_qualified_identifier(namespace, name);
	quote_all_identifiers = false;
	PG_TRY();
	{
		quoted = quote_qualified_identifier(namespace, name);
	}
	PG_FINALLY();
	{
		quote_all_identifiers = quote_all;
	}
	PG_END_TRY();
	return quoted;
}
