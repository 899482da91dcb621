-- The settings, as users see them.
\set VERBOSITY default

-- as they are
SELECT name, CASE name WHEN 'steno.ring_directory' THEN boot_val ELSE setting END AS setting,
    unit, context FROM pg_settings
  WHERE name LIKE 'steno.%' ORDER BY name;

-- steno.log takes a list of classes
SET steno.log = 'read, write';
SHOW steno.log;
SET steno.log = READ, Write, "ddl";
SHOW steno.log;
SET steno.log = 'all';
SET steno.log = 'none';
SET steno.log = 'all, -misc, -MISC_SET';
SHOW steno.log;
SET steno.log = '-misc';
SET steno.log = 'all, -everything';
SET steno.log = 'read, everything';
SET steno.log = '';
SET steno.log = 'read,,write';
SET steno.log = 'none, read';
SHOW steno.log;
RESET steno.log;
SHOW steno.log;

-- choices
SET steno.delivery = 'drop';
SHOW steno.delivery;
SET steno.delivery = 'perhaps';
RESET steno.delivery;
SET steno.log_nested = 'maybe';

-- what applications say of themselves
SET steno.app_user = 'alice';
SET steno.app_context = 'request 1';
SELECT set_config('steno.app_user', repeat('x', 128), false);
RESET steno.app_user;
RESET steno.app_context;
SELECT set_config('steno.role', repeat('x', 64), false);

-- what a session cannot set
SET steno.mandatory = 'none';
SET steno.rules_file = '/elsewhere';
SET steno.start_after = '2s';
SET steno.directory = '/elsewhere';
SET steno.ring_directory = '/elsewhere';
SET steno.ring_size = '64kB';
SET steno.writers = 2;
SET steno.block_size = '2MB';
SET steno.file_mode = 0640;
SET steno.flush_interval = '1s';
SET steno.fsync_interval = '1s';
SET steno.segment_size = '1GB';
SET steno.rotation_age = '1d';
SET steno.compression = 'none';

-- ranges, as ALTER SYSTEM checks them; what else the message says depends on the server's version
\set VERBOSITY sqlstate
ALTER SYSTEM SET steno.flush_interval = '0';
ALTER SYSTEM SET steno.flush_interval = '11s';
ALTER SYSTEM SET steno.fsync_interval = '-2';
ALTER SYSTEM SET steno.fsync_interval = '2h';
ALTER SYSTEM SET steno.segment_size = '512kB';
ALTER SYSTEM SET steno.segment_size = '65GB';
ALTER SYSTEM SET steno.rotation_age = '-1';
ALTER SYSTEM SET steno.rotation_age = '366d';
ALTER SYSTEM SET steno.ring_size = '8kB';
ALTER SYSTEM SET steno.ring_size = '128MB';
ALTER SYSTEM SET steno.block_size = '32kB';
ALTER SYSTEM SET steno.block_size = '17MB';
ALTER SYSTEM SET steno.writers = 0;
ALTER SYSTEM SET steno.writers = 33;
\set VERBOSITY default
SELECT name, min_val, max_val, unit FROM pg_settings
  WHERE name LIKE 'steno.%' AND min_val IS NOT NULL AND name <> 'steno.file_mode' ORDER BY name;

-- values and units
ALTER SYSTEM SET steno.flush_interval = '5MB';
ALTER SYSTEM SET steno.compression = 'zip';
ALTER SYSTEM SET steno.ring_size = '100kB';
ALTER SYSTEM SET steno.file_mode = '0777';
ALTER SYSTEM SET steno.retention_age = '400';
ALTER SYSTEM SET steno.retention_age = '0x10';
ALTER SYSTEM SET steno.retention_age = '1y';
ALTER SYSTEM SET steno.retention_age = '-1d';
ALTER SYSTEM SET steno.retention_age = '30s';
ALTER SYSTEM SET steno.retention_age = '0.4min';
ALTER SYSTEM SET steno.retention_age = '10min';
ALTER SYSTEM SET steno.retention_age = 1440;
ALTER SYSTEM SET steno.retention_age = ' 0 ';
ALTER SYSTEM RESET steno.retention_age;
ALTER SYSTEM SET steno.directory = '';
ALTER SYSTEM SET steno.ring_directory = '';
ALTER SYSTEM SET steno.fsync_interval = '-1';
ALTER SYSTEM SET steno.rotation_age = '1d';
ALTER SYSTEM SET steno.segment_size = '1GB';
ALTER SYSTEM SET steno.ring_size = '1MB';
SELECT name, setting FROM pg_file_settings
  WHERE name LIKE 'steno.%' AND sourcefile LIKE '%/postgresql.auto.conf' ORDER BY name;
ALTER SYSTEM RESET ALL;

-- a setting that does not exist
SET steno.unknown = 1;
SHOW steno.unknown;

-- a role without rights
CREATE ROLE regress_steno_role;
SET ROLE regress_steno_role;
SET steno.log = 'none';
SET steno.log_nested = off;
SET steno.log_parameter = off;
SET steno.delivery = 'drop';
SELECT set_config('steno.log', 'none', false);
SHOW steno.log;
\set VERBOSITY sqlstate
SHOW steno.directory;
SHOW steno.ring_directory;
\set VERBOSITY default
ALTER ROLE regress_steno_role SET steno.log = 'none';
RESET ROLE;

-- a role that was granted one setting may set that one only
GRANT SET ON PARAMETER steno.log TO regress_steno_role;
SET ROLE regress_steno_role;
SET steno.log = 'write';
SHOW steno.log;
SET steno.log_nested = off;
RESET steno.log;
RESET ROLE;
REVOKE SET ON PARAMETER steno.log FROM regress_steno_role;
DROP ROLE regress_steno_role;
