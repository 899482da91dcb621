// Which statements are privileged, which are outside of working hours, and where clients are.

package statement

import (
	"bytes"
	"time"
)

// Grants are the command tags of statements that give and take privileges.
var Grants = []string{"GRANT", "REVOKE", "GRANT ROLE", "REVOKE ROLE", "ALTER DEFAULT PRIVILEGES"}

// Privileged are the command tags of statements that are privileged in any class. All statements of
// class role, and changes of settings, are privileged, too.
var Privileged = []string{
	"ALTER SYSTEM", "LOAD", "SECURITY LABEL", "CREATE EXTENSION", "ALTER EXTENSION", "DROP EXTENSION",
	"CREATE POLICY", "ALTER POLICY", "DROP POLICY", "CREATE EVENT TRIGGER", "ALTER EVENT TRIGGER",
	"DROP EVENT TRIGGER",
	"CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE", "CREATE LANGUAGE", "ALTER LANGUAGE", "DROP LANGUAGE",
	"CREATE SERVER", "ALTER SERVER", "DROP SERVER", "CREATE USER MAPPING", "ALTER USER MAPPING", "DROP USER MAPPING",
	"CREATE PUBLICATION", "ALTER PUBLICATION", "DROP PUBLICATION", "CREATE SUBSCRIPTION", "ALTER SUBSCRIPTION",
	"DROP SUBSCRIPTION",
}

// BulkRows is the least number of rows of a bulk read, as in the view bulk_reads of steno query.
const BulkRows = 10_000

// OffHours reports whether a time is outside working hours: Monday to Friday, from 07:00 to 19:00 in its zone.
func OffHours(t time.Time) bool {
	day, hour := t.Weekday(), t.Hour()
	return day == time.Saturday || day == time.Sunday || hour < 7 || hour >= 19
}

// Host returns a client's address without its port.
func Host(client []byte) []byte {
	i := bytes.LastIndexByte(client, ':')
	if i < 0 {
		return client
	}
	return bytes.Trim(client[:i], "[]")
}
