package slot_test

import (
	command "github.com/pg-steno/pg_steno/internal/command/slot"
	"github.com/pg-steno/pg_steno/internal/slot"
)

func init() { slot.NewCmdSlot = command.NewCmdSlot }
