// Advice about errors of libraries, which know neither commands nor flags.

package program

import (
	"errors"
	"fmt"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/slot"
)

// advice follows an error's text; empty: the error says enough, or its command has said more.
func advice(err error) string {
	var none *slot.NotFoundError
	if errors.As(err, &none) {
		return fmt.Sprintf("; create it with \"steno slot create %s\"", none.Name)
	}
	var refused *slot.UnsafeError
	if errors.As(err, &refused) && refused.Reason == slot.Lost {
		return "; use \"steno slot advance --force\" to continue with what is left"
	}
	return cmdutil.KeyAdvice(err)
}
