/*
 * core/test/filter/secrets_are_found.c
 *		What is hidden, and that all else stays as it is.
 */
#include <string.h>

#include "filter/redact.h"
#include "test/test.h"

/* The text without its secrets, in a buffer of its own; the text ends where its memory ends. */
static char *
redact_with(const char *text, bool standard_strings)
{
	size_t		len = strlen(text);
	char	   *copy = malloc(len > 0 ? len : 1);
	StenoCuts	cuts;
	char	   *out;

	memcpy(copy, text, len);
	steno_redact_measure(copy, len, standard_strings, &cuts);
	out = malloc(cuts.len + 1);
	steno_redact_write(copy, len, standard_strings, &cuts, out, cuts.len);
	out[cuts.len] = '\0';
	free(copy);
	return out;
}

static void
check_with(const char *text, const char *expected, bool standard_strings)
{
	char	   *out = redact_with(text, standard_strings);
	char	   *again = redact_with(out, standard_strings);

	if (strcmp(out, expected) != 0 || strcmp(again, out) != 0)
		fprintf(stderr, "text:     %s\nexpected: %s\nis:       %s\nagain:    %s\n", text, expected, out, again);
	CHECK(strcmp(out, expected) == 0);
	CHECK(strcmp(again, out) == 0);
	if (strcmp(text, expected) != 0)
		CHECK(steno_redact_suspect(text, strlen(text)));
	free(out);
	free(again);
}

static void
hides(const char *text, const char *expected)
{
	check_with(text, expected, true);
}

static void
keeps(const char *text)
{
	check_with(text, text, true);
}

TEST(secrets_of_roles_are_hidden)
{
	hides("CREATE ROLE r LOGIN PASSWORD 's3cret' VALID UNTIL '2030-01-01'",
		  "CREATE ROLE r LOGIN PASSWORD '<redacted>' VALID UNTIL '2030-01-01'");
	hides("alter user u encrypted password 's3cret' connection limit 3",
		  "alter user u encrypted password '<redacted>' connection limit 3");
	hides("CREATE GROUP g UNENCRYPTED PASSWORD 's3cret'", "CREATE GROUP g UNENCRYPTED PASSWORD '<redacted>'");
	hides("ALTER ROLE r PASSWORD/**/E's3\\'cret\\\\' LOGIN", "ALTER ROLE r PASSWORD/**/E'<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD -- 'none'\n U&'s3cret' UESCAPE '!'",
		  "ALTER ROLE r PASSWORD -- 'none'\n U&'<redacted>' UESCAPE '!'");
	hides("ALTER ROLE r PASSWORD $x$s3'$cret$x$ LOGIN", "ALTER ROLE r PASSWORD $x$<redacted>$x$ LOGIN");
	hides("ALTER ROLE r PASSWORD 's3'\n  'cret' LOGIN", "ALTER ROLE r PASSWORD '<redacted>'\n  '<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD 's3'';cret'; SELECT ';'", "ALTER ROLE r PASSWORD '<redacted>'; SELECT ';'");
	hides("ALTER ROLE r PASSWORD ''", "ALTER ROLE r PASSWORD '<redacted>'");
	hides("CREATE USER password PASSWORD 's3cret'", "CREATE USER password PASSWORD '<redacted>'");
	hides("CREATE ROLE a PASSWORD 'x1'; /* 'b' /* */ */ CREATE ROLE b PASSWORD 'x2'",
		  "CREATE ROLE a PASSWORD '<redacted>'; /* 'b' /* */ */ CREATE ROLE b PASSWORD '<redacted>'");
	hides("ALTER ROLE r PASSWORD\xc2\xa0's3cret' LOGIN", "ALTER ROLE r PASSWORD\xc2\xa0'<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD\xe3\x80\x80\xe2\x80\x89's3cret'", "ALTER ROLE r PASSWORD\xe3\x80\x80\xe2\x80\x89'<redacted>'");
	hides("ALTER ROLE r PASSWORD\xa0's3cret'", "ALTER ROLE r PASSWORD\xa0'<redacted>'");
	keeps("ALTER ROLE r PASSWORD\xc3\xa4 's3cret'");
	keeps("ALTER ROLE r PASSWORD NULL VALID UNTIL 'infinity'");
	keeps("ALTER ROLE r VALID UNTIL '2030-01-01'");
	keeps("ALTER ROLE password RENAME TO x");
	keeps("COMMENT ON ROLE r IS 'has no password yet'");
	keeps("SET password_encryption = 'scram-sha-256'");
	keeps("SELECT 'x' AS password, 'PASSWORD ' || 'x'");
}

/* Behind the end of a line a literal with backslashes goes on with them. */
TEST(secrets_are_hidden_in_all_lines_of_a_literal)
{
	hides("ALTER ROLE r PASSWORD E's3'\n'c\\'ret' LOGIN", "ALTER ROLE r PASSWORD E'<redacted>'\n'<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD E's3' -- 'x\r\n\t'c\\'ret'\n'\\'s' LOGIN",
		  "ALTER ROLE r PASSWORD E'<redacted>' -- 'x\r\n\t'<redacted>'\n'<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD 's3'\n'c\\' VALID UNTIL 'ret'", "ALTER ROLE r PASSWORD '<redacted>'\n'<redacted>' VALID UNTIL 'ret'");
	hides("SELECT E'a'\n'b\\'c'; ALTER ROLE r PASSWORD 's3cret'", "SELECT E'a'\n'b\\'c'; ALTER ROLE r PASSWORD '<redacted>'");
	hides("SELECT E'a' /*\n*/ 'b\\'; ALTER ROLE r PASSWORD 's3cret'", "SELECT E'a' /*\n*/ 'b\\'; ALTER ROLE r PASSWORD '<redacted>'");
	hides("DO $$ EXECUTE E'ALTER ROLE r PASSWORD ''s3'\n'c\\'''ret'; $$", "DO $$ EXECUTE E'ALTER ROLE r PASSWORD ''<redacted>'\n'<redacted>'; $$");
}

TEST(secrets_in_broken_statements_are_hidden)
{
	hides("ALTER ROL r PASWORD PASSWORD 's3cret' x", "ALTER ROL r PASWORD PASSWORD '<redacted>' x");
	hides("ALTER ROLE r PASSWORD 's3cret", "ALTER ROLE r PASSWORD '<redacted>");
	hides("ALTER ROLE r PASSWORD $x$s3cret$y$ ;", "ALTER ROLE r PASSWORD $x$<redacted>");
	hides("ALTER ROLE r PASSWORD E's3cret\\'", "ALTER ROLE r PASSWORD E'<redacted>");
	hides("ALTER ROLE r PASSWORD s3cret VALID UNTIL '2030-01-01'",
		  "ALTER ROLE r PASSWORD <redacted> VALID UNTIL '2030-01-01'");
	hides("ALTER ROLE r PASSWORD is 's3cret' VALID UNTIL 'kept'", "ALTER ROLE r PASSWORD <redacted> '<redacted>' VALID UNTIL 'kept'");
	hides("ALTER ROLE r PASSWORD 's3' || 'cret' VALID UNTIL 'kept' || 'kept'",
		  "ALTER ROLE r PASSWORD '<redacted>' || '<redacted>' VALID UNTIL 'kept' || 'kept'");
	hides("ALTER ROLE r PASSWORD \"s3 cret\"; SELECT 1", "ALTER ROLE r PASSWORD <redacted>; SELECT 1");
	hides("ALTER ROLE r PASSWORD !s3,cret", "ALTER ROLE r PASSWORD <redacted>");
	hides("ALTER ROLE r PASSWORD ('s3cret') LOGIN", "ALTER ROLE r PASSWORD ('<redacted>') LOGIN");
	hides("alter user u password ((E's3cret'))", "alter user u password ((E'<redacted>'))");
	hides("ALTER ROLE r PASSWORD/* c */( -- d\n$$s3cret$$)", "ALTER ROLE r PASSWORD/* c */( -- d\n$$<redacted>$$)");
	hides("CREATE ROLE r PASSWORD = 's3cret'", "CREATE ROLE r PASSWORD = '<redacted>'");
	hides("CREATE ROLE r PASSWORD = ('s3cret')", "CREATE ROLE r PASSWORD = ('<redacted>')");
	hides("CREATE ROLE r PASSWORD (s3cret)", "CREATE ROLE r PASSWORD (<redacted>)");
	hides("DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD (' || quote_literal('s3cret') || ')'; END$$",
		  "DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD (' || quote_literal('<redacted>') || '<redacted>'; END$$");
	hides("SELECT format('ALTER ROLE r PASSWORD (%L)', 's3cret')", "SELECT format('ALTER ROLE r PASSWORD (%L)', '<redacted>')");
	hides("ALTER ROLE r PASSWORD 's3'cret' LOGIN", "ALTER ROLE r PASSWORD '<redacted>'<redacted>'<redacted>");
	hides("CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'me', password s3cret)",
		  "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'me', password <redacted>)");
}

TEST(secrets_of_options_are_hidden)
{
	hides("CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'me', password 's3cret')",
		  "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'me', password '<redacted>')");
	hides("ALTER USER MAPPING FOR u SERVER s OPTIONS (SET \"password\" 's3cret', ADD sslpassword 's3', DROP x)",
		  "ALTER USER MAPPING FOR u SERVER s OPTIONS (SET \"password\" '<redacted>', ADD sslpassword '<redacted>', DROP x)");
	hides("CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'h', api_key 'k3y', token 't', secret 'u', key 'v')",
		  "CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'h', api_key '<redacted>', token '<redacted>', secret '<redacted>', key '<redacted>')");
	keeps("CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'me', password_required 'false', sslkey '/k')");
	keeps("SELECT token 'x', key 'y'");
}

TEST(secrets_of_connection_strings_are_hidden)
{
	hides("CREATE SUBSCRIPTION s CONNECTION 'host=h password=s3cret dbname=d' PUBLICATION p",
		  "CREATE SUBSCRIPTION s CONNECTION 'host=h password=<redacted> dbname=d' PUBLICATION p");
	hides("ALTER SUBSCRIPTION s CONNECTION 'password = ''s3 \\''cret'' host=h'",
		  "ALTER SUBSCRIPTION s CONNECTION 'password = <redacted> host=h'");
	hides("SELECT dblink_connect('c', 'host=h user=a\"b password=s3--cret')",
		  "SELECT dblink_connect('c', 'host=h user=a\"b password=<redacted>')");
	hides("SELECT * FROM dblink('postgresql://me:s3c@ret@h:5432/d?sslmode=require', 'SELECT 1') t(a int)",
		  "SELECT * FROM dblink('postgresql://me:<redacted>@h:5432/d?sslmode=require', 'SELECT 1') t(a int)");
	hides("SELECT dblink_exec('postgres://h/d?user=me&password=s3cret&sslmode=require', 'DELETE FROM t')",
		  "SELECT dblink_exec('postgres://h/d?user=me&password=<redacted>&sslmode=require', 'DELETE FROM t')");
	hides("SELECT dblink_connect_u($$host=h password=s3cret$$)", "SELECT dblink_connect_u($$host=h password=<redacted>$$)");
	hides("SELECT dblink_connect(E'host=h password=\\'s3 cret\\' port=1')",
		  "SELECT dblink_connect(E'host=h password=<redacted> port=1')");
	hides("SELECT dblink_connect('host=h password=my s3cret port=1')",
		  "SELECT dblink_connect('host=h password=<redacted> port=1')");
	hides("SELECT dblink_connect('host=h password=' || 's3cret', 'x'); SELECT 'y'",
		  "SELECT dblink_connect('host=h password=' || '<redacted>', '<redacted>'); SELECT 'y'");
	hides("SELECT dblink_connect(format('host=%s password=%s', 'h', 's3cret'))",
		  "SELECT dblink_connect(format('host=%s password=%s', '<redacted>', '<redacted>'))");
	hides("SELECT dblink('c', 'ALTER ROLE r PASSWORD ''s3cret'' LOGIN')",
		  "SELECT dblink('c', 'ALTER ROLE r PASSWORD ''<redacted>'' LOGIN')");
	keeps("SELECT dblink('host=h user=me', 'SELECT password FROM t')");
	hides("CREATE SUBSCRIPTION s CONNECTION 'postgresql://me:it''s a s3cret@h/d' PUBLICATION p",
		  "CREATE SUBSCRIPTION s CONNECTION 'postgresql://me:<redacted>@h/d' PUBLICATION p");
	hides("CREATE SUBSCRIPTION s CONNECTION 'postgres://me:''s3cret@h/d' PUBLICATION p",
		  "CREATE SUBSCRIPTION s CONNECTION 'postgres://me:<redacted>@h/d' PUBLICATION p");
	hides("SELECT dblink('postgres://' || 'me:s3cret@h'), dblink('postgres://me:' || 's3cret' || '@h')",
		  "SELECT dblink('postgres://' || 'me:s3cret@h'), dblink('postgres://me:' || '<redacted>' || '<redacted>')");
	hides("CREATE SUBSCRIPTION s CONNECTION 'postgres://me:'\n's3cret@h' PUBLICATION p",
		  "CREATE SUBSCRIPTION s CONNECTION 'postgres://me:'\n'<redacted>' PUBLICATION p");
	keeps("SELECT 'https://h:80/a@b', 'http://me@h/', 'postgresql://h:5432/d'");
	keeps("SELECT 'http://h:' || port || '/path'");
	keeps("SELECT 'postgres://h:5432 is that of a@b', 'see postgres://h: a@b'");
	keeps("SELECT 'UPDATE t SET password = new.password WHERE a = 1'");
}

TEST(secrets_of_programs_and_calls_are_hidden)
{
	hides("COPY t FROM PROGRAM 'curl -u me:s3cret h' WITH (FORMAT csv, DELIMITER ';')",
		  "COPY t FROM PROGRAM 'curl -u me:<redacted> h' WITH (FORMAT csv, DELIMITER ';')");
	hides("SELECT pgp_sym_encrypt('s3'||a, $1, 'cipher-algo=aes256'), 'kept' FROM t WHERE b = 'kept'",
		  "SELECT pgp_sym_encrypt('<redacted>'||a, $1, '<redacted>'), 'kept' FROM t WHERE b = 'kept'");
	hides("SELECT 1 WHERE public.Crypt ('s3cret', gen_salt('bf')) = 'kept'",
		  "SELECT 1 WHERE public.Crypt ('<redacted>', gen_salt('<redacted>')) = 'kept'");
	hides("SELECT hmac('a', 'b', 'sha1'), digest($$c$$, 'md5'), encrypt('d'::bytea, 'e', 'aes'), decrypt_iv('f', '', '', '')",
		  "SELECT hmac('<redacted>', '<redacted>', '<redacted>'), digest($$<redacted>$$, '<redacted>'), "
		  "encrypt('<redacted>'::bytea, '<redacted>', '<redacted>'), "
		  "decrypt_iv('<redacted>', '<redacted>', '<redacted>', '<redacted>')");
	hides("SELECT set_config('my.password', 's3cret', false), set_config('my.color', 'kept', false)",
		  "SELECT set_config('my.password', '<redacted>', false), set_config('my.color', 'kept', false)");
	hides("SET my.password = 's3cret'", "SET my.password = '<redacted>'");
	hides("SET my.password TO s3cret; SELECT 'a'", "SET my.password TO <redacted>; SELECT 'a'");
	hides("ALTER SYSTEM SET ssl_passphrase_command = 'echo \"s3cret\"'",
		  "ALTER SYSTEM SET ssl_passphrase_command = '<redacted>'");
	keeps("ALTER SYSTEM SET ssl_passphrase_command_supports_reload = on");
	hides("ALTER DATABASE d SET \"app.jwt_secret\" TO 's3cret'", "ALTER DATABASE d SET \"app.jwt_secret\" TO '<redacted>'");
	hides("UPDATE users SET password = 's3cret' WHERE id = 'kept'", "UPDATE users SET password = '<redacted>' WHERE id = 'kept'");
	hides("SELECT login(name => 'me', password => 's3cret')", "SELECT login(name => 'me', password => '<redacted>')");
	keeps("SELECT encrypt_all, 'x', (crypt), 'y' FROM t");
	keeps("ALTER ROLE r SET my.password TO DEFAULT");
	keeps("UPDATE users SET password = other.password FROM other WHERE a = 'x'");
}

TEST(secrets_in_literals_are_hidden)
{
	hides("DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ''s3cret'' LOGIN'; END$$",
		  "DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ''<redacted>'' LOGIN'; END$$");
	hides("DO 'BEGIN EXECUTE ''ALTER ROLE r PASSWORD ''''s3''''''''cret'''' LOGIN''; END'",
		  "DO 'BEGIN EXECUTE ''ALTER ROLE r PASSWORD ''''<redacted>'''' LOGIN''; END'");
	hides("DO E'BEGIN ALTER ROLE r PASSWORD E\\'s3\\\\\\'cret\\' LOGIN; END'",
		  "DO E'BEGIN ALTER ROLE r PASSWORD E\\'<redacted>\\' LOGIN; END'");
	hides("CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE x text := $x$it's$x$; BEGIN "
		  "ALTER ROLE r PASSWORD $q$s3cret$q$; PERFORM crypt('s3', x); END $f$",
		  "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE x text := $x$it's$x$; BEGIN "
		  "ALTER ROLE r PASSWORD $q$<redacted>$q$; PERFORM crypt('<redacted>', x); END $f$");
	hides("DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ' || quote_literal('s3cret') || ' LOGIN'; PERFORM 'kept'; END$$",
		  "DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ' || quote_literal('<redacted>') || '<redacted>'; PERFORM 'kept'; END$$");
	hides("DO $$BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', 'r', 's3cret'); END$$",
		  "DO $$BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', '<redacted>', '<redacted>'); END$$");
	hides("DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ''' || 's3cret' || ''''; END$$",
		  "DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ''<redacted>' || '<redacted>' || '<redacted>'; END$$");
	hides("DO $$BEGIN EXECUTE 'CREATE USER ' || quote_ident('me') || ' WITH PASSWORD ' || quote_literal('s3cret'); PERFORM 'kept'; END$$",
		  "DO $$BEGIN EXECUTE 'CREATE USER ' || quote_ident('me') || ' WITH PASSWORD ' || quote_literal('<redacted>'); PERFORM 'kept'; END$$");
	hides("DO $$BEGIN EXECUTE $a$ALTER ROLE $a$ || n || $a$ PASSWORD $a$ || 's3cret'; END$$",
		  "DO $$BEGIN EXECUTE $a$ALTER ROLE $a$ || n || $a$ PASSWORD $a$ || '<redacted>'; END$$");
	keeps("DO $$BEGIN EXECUTE 'CREATE ROLE ' || n; RAISE 'no ' || 'password ' || 'kept'; END$$");
	keeps("DO $$BEGIN EXECUTE 'DROP ROLE ' || n || 'password ' || 'kept'; END$$");
	hides("CREATE FUNCTION f() RETURNS void LANGUAGE plpython3u AS $$\nimport x\n# it's\nx.connect(\"host=h password=s3cret\")\ny = 1\n$$",
		  "CREATE FUNCTION f() RETURNS void LANGUAGE plpython3u AS $$\nimport x\n# it's\nx.connect(\"host=h password=<redacted>\")\ny = 1\n$$");
	hides("PREPARE p AS SELECT crypt('s3cret', $1); EXECUTE p('kept')", "PREPARE p AS SELECT crypt('<redacted>', $1); EXECUTE p('kept')");
}

TEST(secrets_of_expressions_are_hidden)
{
	hides("UPDATE u SET password = ('s3cret'), name = 'kept' WHERE id = 'kept'",
		  "UPDATE u SET password = ('<redacted>'), name = 'kept' WHERE id = 'kept'");
	hides("UPDATE u SET password = md5('s3cret' || salt || 's3') WHERE id = 'kept'",
		  "UPDATE u SET password = md5('<redacted>' || salt || '<redacted>') WHERE id = 'kept'");
	hides("UPDATE u SET password = CASE WHEN a = 'kept' AND b THEN 's3cret' ELSE 's3' END, c = 'kept'",
		  "UPDATE u SET password = CASE WHEN a = 'kept' AND b THEN '<redacted>' ELSE '<redacted>' END, c = 'kept'");
	hides("UPDATE u SET password = coalesce(x, (SELECT 's3' FROM t WHERE a = 'kept'), 's3cret'), c = 'kept'",
		  "UPDATE u SET password = coalesce(x, (SELECT '<redacted>' FROM t WHERE a = 'kept'), '<redacted>'), c = 'kept'");
	hides("UPDATE u SET password = (SELECT 's3' WHERE a = 'kept' UNION SELECT 's3cret' WHERE b = 'kept')",
		  "UPDATE u SET password = (SELECT '<redacted>' WHERE a = 'kept' UNION SELECT '<redacted>' WHERE b = 'kept')");
	hides("SELECT login(name => 'kept', password => upper('s3cret'), host => 'kept')",
		  "SELECT login(name => 'kept', password => upper('<redacted>'), host => 'kept')");
	hides("SELECT 'kept' FROM u WHERE password = md5('s3cret') AND name = 'kept'",
		  "SELECT 'kept' FROM u WHERE password = md5('<redacted>') AND name = 'kept'");
	hides("DO $$BEGIN v_password := lower('s3cret'); PERFORM 'kept'; END$$",
		  "DO $$BEGIN v_password := lower('<redacted>'); PERFORM 'kept'; END$$");
	keeps("UPDATE u SET password = other.password, a = 'kept' FROM other WHERE b = 'kept'");
	keeps("SELECT 'kept' FROM u JOIN v ON u.password = v.password WHERE b = 'kept'");
	keeps("DO $$BEGIN IF old.password = new.password THEN RAISE 'kept'; END IF; END$$");
	keeps("SELECT CASE WHEN password = x THEN 'kept' ELSE 'kept' END");
}

TEST(secrets_behind_a_prefix_in_a_variable_are_hidden)
{
	hides("DO $$DECLARE p text := 'ALTER ROLE r PASSWORD '; BEGIN PERFORM 'kept'; EXECUTE p || quote_literal('s3cret'); PERFORM 'kept'; END$$",
		  "DO $$DECLARE p text := 'ALTER ROLE r PASSWORD '; BEGIN PERFORM 'kept'; EXECUTE p || quote_literal('<redacted>'); PERFORM 'kept'; END$$");
	hides("DO $$DECLARE p text; BEGIN p := 'ALTER ROLE r PASSWORD '; p := p || '''s3cret'''; EXECUTE p; END$$",
		  "DO $$DECLARE p text; BEGIN p := 'ALTER ROLE r PASSWORD '; p := p || '<redacted>'; EXECUTE p; END$$");
	hides("CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE p text := 'host=h password='; "
		  "BEGIN PERFORM dblink_connect(concat(p, 's3cret')); END $f$",
		  "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE p text := 'host=h password='; "
		  "BEGIN PERFORM dblink_connect(concat(p, '<redacted>')); END $f$");
	keeps("DO $$BEGIN p := 'SELECT password FROM t WHERE a = '; EXECUTE p || quote_literal('kept'); END$$");
}

TEST(secrets_of_uris_with_reserved_characters_are_hidden)
{
	hides("SELECT dblink('postgres://u:a:b?s3cret@host/d')", "SELECT dblink('postgres://u:<redacted>@host/d')");
	hides("SELECT dblink('postgres://u:a#bs3cret@host')", "SELECT dblink('postgres://u:<redacted>@host')");
	hides("SELECT dblink('postgres://u:a/b/s3cret@host/d?x=y@z')", "SELECT dblink('postgres://u:<redacted>@host/d?x=y@z')");
	hides("SELECT dblink('postgres://h/d?password=a#s3cret&user=u')", "SELECT dblink('postgres://h/d?password=<redacted>&user=u')");
	hides("SELECT f('{\"url\": \"http://h/?password=s3cret\", \"a\": \"kept\"}')",
		  "SELECT f('{\"url\": \"http://h/?password=<redacted>\", \"a\": \"kept\"}')");
	keeps("SELECT 'http://h:80/a@b', 'http://h:80?a@b', 'postgres://h:5432,i:5432/d?a=b@c', 'http://[::1]:80/a@b', 'http://h:80#a@b'");
}

TEST(commands_are_kept_without_their_secrets)
{
	hides("COPY t FROM PROGRAM 'curl -s -u me:s3cret https://h/x | gzip -d' WITH (FORMAT csv)",
		  "COPY t FROM PROGRAM 'curl -s -u me:<redacted> https://h/x | gzip -d' WITH (FORMAT csv)");
	hides("COPY t TO PROGRAM 'PGPASSWORD=s3cret psql -h h -c \"select 1\"'",
		  "COPY t TO PROGRAM 'PGPASSWORD=<redacted> psql -h h -c \"select 1\"'");
	hides("COPY t TO PROGRAM 'psql \"host=h password=s3cret dbname=d\"'", "COPY t TO PROGRAM 'psql \"host=h password=<redacted> dbname=d\"'");
	hides("COPY t TO PROGRAM 'psql postgres://u:s3cret@h/d -c x'", "COPY t TO PROGRAM 'psql postgres://u:<redacted>@h/d -c x'");
	hides("COPY t FROM PROGRAM 'x --password s3cret --token=s3 -v --user=a:s3cret'",
		  "COPY t FROM PROGRAM 'x --password <redacted> --token=<redacted> -v --user=a:<redacted>'");
	hides("COPY t FROM PROGRAM 'x --password ''s3 cret'' -v'", "COPY t FROM PROGRAM 'x --password ''<redacted>'' -v'");
	hides("COPY t FROM PROGRAM $$curl -H 'Authorization: Bearer s3cret' -H \"X-Api-Key: s3\" h$$",
		  "COPY t FROM PROGRAM $$curl -H 'Authorization: <redacted>' -H \"X-Api-Key: <redacted>\" h$$");
	hides("COPY t FROM PROGRAM 'mysqldump -u root -ps3cret db'", "COPY t FROM PROGRAM 'mysqldump -u root -p<redacted> db'");
	hides("COPY t FROM PROGRAM 'sshpass -p s3cret ssh -p 22 h'", "COPY t FROM PROGRAM 'sshpass -p <redacted> ssh -p 22 h'");
	hides("COPY t FROM PROGRAM 'sshpass -ps3cret ssh h; sshpass -p''s3 cret'' ssh h; sshpass -P x -p s3cret ssh'",
		  "COPY t FROM PROGRAM 'sshpass -p<redacted> ssh h; sshpass -p''<redacted>'' ssh h; sshpass -P x -p <redacted> ssh'");
	hides("COPY t FROM PROGRAM 'curl -su me:s3cret h; curl -kume:s3cret h; curl -u\"me:s3cret\" -ou:kept h'",
		  "COPY t FROM PROGRAM 'curl -su me:<redacted> h; curl -kume:<redacted> h; curl -u\"me:<redacted>\" -ou:kept h'");
	hides("COPY t FROM PROGRAM 'curl --oauth2-bearer s3cret h'", "COPY t FROM PROGRAM 'curl --oauth2-bearer <redacted> h'");
	hides("COPY t FROM PROGRAM 'x --password='\n's3cret'", "COPY t FROM PROGRAM 'x --password='\n'<redacted>'");
	hides("DO $$BEGIN EXECUTE format('COPY t TO PROGRAM ''x --token=%s -v''', 's3cret'); END$$",
		  "DO $$BEGIN EXECUTE format('COPY t TO PROGRAM ''x --token=%s -v''', '<redacted>'); END$$");
	hides("DO $$BEGIN EXECUTE 'COPY t TO PROGRAM ''curl -u me:' || 's3cret' || ' h'''; END$$",
		  "DO $$BEGIN EXECUTE 'COPY t TO PROGRAM ''curl -u me:' || '<redacted>' || '<redacted>'; END$$");
	hides("COPY t FROM PROGRAM $$sh -c \"curl -u 'me:s3 cret' h\"$$", "COPY t FROM PROGRAM $$sh -c \"curl -u 'me:<redacted>' h\"$$");
	hides("COPY t FROM PROGRAM 'openssl enc -pass pass:s3cret -in f'", "COPY t FROM PROGRAM 'openssl enc -pass pass:<redacted> -in f'");
	keeps("COPY t FROM PROGRAM 'gzip -dc /data/x.gz; rm -rf /; mkdir -p /a/b; cat /etc/passwd > /tmp/x; echo $HOME'");
	keeps("COPY t FROM PROGRAM 'psql -U me -h h -p 5432 --password \"$PW\" -c \"select ''a''\"; docker run --user 1000:1000 i'");
	keeps("COPY t FROM PROGRAM 'mysql -P3306 --user me' WITH (DELIMITER ';')");
	keeps("COPY t FROM PROGRAM 'rsync -u h:/x y; date -u +%H:%M; cd $(pwd); export PASSWORD=$x'");
	keeps("COPY t FROM PROGRAM ''");
}

TEST(secrets_with_backslashes_are_hidden)
{
	check_with("ALTER ROLE r PASSWORD 's3\\'cret' LOGIN", "ALTER ROLE r PASSWORD '<redacted>' LOGIN", false);
	check_with("ALTER ROLE r PASSWORD N's3\\'cret' LOGIN", "ALTER ROLE r PASSWORD N'<redacted>' LOGIN", false);
	check_with("ALTER ROLE r PASSWORD 's3\\' LOGIN", "ALTER ROLE r PASSWORD '<redacted>' LOGIN", true);
	check_with("SELECT '\\' password, 'kept'", "SELECT '\\' password, 'kept'", true);
	hides("ALTER ROLE r PASSWORD E's3\\'cret\\\\' LOGIN", "ALTER ROLE r PASSWORD E'<redacted>' LOGIN");
	hides("ALTER ROLE r PASSWORD E's3\\\\''cret\\\\\\'' LOGIN", "ALTER ROLE r PASSWORD E'<redacted>' LOGIN");
}

/* Names in JSON documents are passed, what else is in the literal is not. */
TEST(secrets_beside_names_in_documents_are_hidden)
{
	keeps("SELECT '{\"password\": \"x\"}', '[\"secret\"]', 'it''s a pwd, isn''t it'");
	hides("SELECT '{\"secret\": \"a\"}', crypt('s3cret', 'x')",
		  "SELECT '{\"secret\": \"a\"}', crypt('<redacted>', '<redacted>')");
	hides("SELECT '{\"password\": \"x\", \"url\": \"http://u:s3cret@h/\"}'",
		  "SELECT '{\"password\": \"x\", \"url\": \"http://u:<redacted>@h/\"}'");
	hides("SELECT '{\"password\": 1, ''ALTER ROLE r PASSWORD\"s3cret\"''}'",
		  "SELECT '{\"password\": 1, ''ALTER ROLE r PASSWORD<redacted>''}'");
	keeps("SELECT '{\"note\": \"it''s secret, isn''t it\"}', 'x' AS password");
	hides("SELECT '{\"note\": \"it''s secret\"}', crypt('s3cret', 'it''s')",
		  "SELECT '{\"note\": \"it''s secret\"}', crypt('<redacted>', '<redacted>')");
	hides("SELECT '{\"note\": \"it''s\", \"password=s3cret\"}'", "SELECT '{\"note\": \"it''s\", \"password=<redacted>'");
	hides("SELECT '[\"it''s\", ''ALTER ROLE r PASSWORD\"s3cret\"'', \"secret\"]'",
		  "SELECT '[\"it''s\", ''ALTER ROLE r PASSWORD<redacted>'', \"secret\"]'");
	hides("SELECT '[1, it''''ALTER ROLE r PASSWORD\"s3cret\"'' x]'", "SELECT '[1, it''''ALTER ROLE r PASSWORD<redacted>'' x]'");
	hides("SELECT '{\"password\": \"it''s\"}', 'a ''''password=s3cret'",
		  "SELECT '{\"password\": \"it''s\"}', 'a ''''password=<redacted>'");
}

/* Literals in literals, deeper than is looked: hidden whole. */
TEST(secrets_deep_down_are_hidden)
{
	char		text[4000] = "ALTER ROLE r PASSWORD $q$s3cret$q$";
	char	   *out;
	int			i;

	for (i = 0; i < 20; i++)
	{
		char		outer[4000];

		snprintf(outer, sizeof(outer), "DO $t%d$%.3000s$t%d$", i, text, i);
		strcpy(text, outer);
	}
	out = redact_with(text, true);
	CHECK(strstr(out, "s3cret") == NULL);
	CHECK(strstr(out, STENO_REDACTED) != NULL);
	free(out);
}

/* ---- messages ---- */

static void
message_is(const char *text, const char *message, const char *expected)
{
	StenoSecrets secrets;
	size_t		hidden;
	size_t		len;
	char	   *out;

	steno_redact_collect(&secrets, text, strlen(text), true);
	len = steno_redact_message(&secrets, message, strlen(message), NULL, &hidden);
	out = malloc(len + 1);
	CHECK(steno_redact_message(&secrets, message, strlen(message), out, &hidden) == len);
	out[len] = '\0';
	if (strcmp(out, expected) != 0)
		fprintf(stderr, "text:     %s\nmessage:  %s\nexpected: %s\nis:       %s\n", text, message, expected, out);
	CHECK(strcmp(out, expected) == 0);
	CHECK((hidden == 0) == (strcmp(message, expected) == 0));
	free(out);
}

TEST(secrets_in_messages_are_hidden)
{
	const char *text = "ALTER ROLE r PASSWORD 's3''cret' x";

	message_is(text, "syntax error at or near \"'s3''cret'\"", "syntax error at or near \"'<redacted>'\"");
	message_is(text, "bad value \"s3'cret\", \"s3'cret\"", "bad value \"<redacted>\", \"<redacted>\"");
	message_is(text, "role \"r\" does not exist", "role \"r\" does not exist");
	message_is("ALTER ROLE r PASSWORD 'a'", "syntax error at or near \"a\"", "syntax error at or near \"<redacted>\"");
}

TEST(secrets_in_messages_of_every_layer_are_hidden)
{
	const char *text = "DO 'BEGIN EXECUTE ''ALTER ROLE r PASSWORD ''''s3''''''''cret''''''; END'";

	message_is(text, "near \"s3'cret\"", "near \"<redacted>\"");
	message_is(text, "near \"'s3''cret'\"", "near \"'<redacted>'\"");
	message_is(text, "near \"''s3''''cret''\"", "near \"''<redacted>''\"");
	message_is("ALTER ROLE r PASSWORD 's3'cret' x", "syntax error at or near \"cret\"", "syntax error at or near \"<redacted>\"");
	message_is("ALTER ROLE r PASSWORD s3cret!x", "syntax error at or near \"s3cret\"", "syntax error at or near \"<redacted>\"");
	message_is("SELECT dblink_connect('postgres://u:x@s3cret@h')", "could not translate host name \"s3cret@h\"",
			   "could not translate host name \"<redacted>@h\"");
	message_is("SELECT dblink_connect('postgres://u:s3cret/x@h')", "invalid port number: \"s3cret\"",
			   "invalid port number: \"<redacted>\"");
	message_is("SELECT dblink_connect('password=my s3cret')", "missing \"=\" after \"s3cret\" in string",
			   "missing \"=\" after \"<redacted>\" in string");
}

TEST(messages_with_too_many_secrets_are_hidden_whole)
{
	static char text[100000];
	static char message[200001];
	StenoSecrets secrets;
	size_t		hidden;
	char		out[STENO_REDACTED_LEN];
	int			i;

	for (i = 0; i < 100; i++)
		snprintf(text + strlen(text), 100, "CREATE ROLE r PASSWORD 's3cret%d';", i);
	message_is(text, "something about s3cret99", STENO_REDACTED);
	for (i = 0; i < 100; i++)
		snprintf(text + i * 37, 100, "CREATE ROLE %06d PASSWORD 's3cret';  ", i);
	message_is(text, "something about s3cret", "something about <redacted>");

	/* all but a secret, everywhere: time is limited */
	memset(text, 'a', 90000);
	memcpy(text, "PASSWORD '", 10);
	strcpy(text + 90000, "b'");
	memset(message, 'a', 200000);
	steno_redact_collect(&secrets, text, strlen(text), true);
	CHECK(steno_redact_message(&secrets, message, 200000, NULL, &hidden) == STENO_REDACTED_LEN && hidden == 1);
	CHECK(steno_redact_message(&secrets, message, 200000, out, &hidden) == STENO_REDACTED_LEN);
	CHECK(memcmp(out, STENO_REDACTED, sizeof(out)) == 0);
}
