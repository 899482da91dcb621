// Exit codes of other conventions.

package exit

import "fmt"

// StatusError ends the program with an exit code of a convention that is not ours, such as that of Nagios. The command
// has already reported why.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
