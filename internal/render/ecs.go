// The format of the Elastic Common Schema.

package render

import (
	"bytes"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ECSVersion is the version of the Elastic Common Schema that records follow.
const ECSVersion = "8.17.0"

// ecsFormat makes a JSON object a line after the Elastic Common Schema. What
// the schema has no field for stands in pg_steno.
type ecsFormat struct{ definitions }

// ecsEvents has event.category and event.type for the kinds of records that are not statements.
var ecsEvents = map[format.Kind]string{
	format.KindConnect:        `"category":["authentication","session"],"type":["start"]`,
	format.KindAuthFailed:     `"category":["authentication"],"type":["start"]`,
	format.KindDisconnect:     `"category":["session"],"type":["end"]`,
	format.KindSetting:        `"category":["configuration"],"type":["change"]`,
	format.KindTransaction:    `"category":["database"],"type":["info"]`,
	format.KindSubtransaction: `"category":["database"],"type":["info"]`,
	format.KindGap:            `"category":["database"],"type":["error"]`,
}

// ecsTypes has event.category and the beginning of event.type for the classes of statements.
var ecsTypes = map[format.Class]string{
	format.ClassRead:     `"category":["database"],"type":["access"`,
	format.ClassFunction: `"category":["database"],"type":["access"`,
	format.ClassWrite:    `"category":["database"],"type":["change"`,
	format.ClassDDL:      `"category":["database"],"type":["change"`,
	format.ClassRole:     `"category":["database","iam"],"type":["change","admin"`,
}

func (f *ecsFormat) Start(ref *trail.BlockRef) {
	f.definitions.Start(ref)
	f.startBlock(ref, ecsOrigin)
}

// ecsOrigin appends the server. Those of a cluster have one service.id, and each its host.
func ecsOrigin(dst []byte, systemID uint64, s *trail.Server) []byte {
	if s.Host != "" {
		dst = append(appendJSON(append(dst, `,"host":{"name":`...), s.Host), '}')
	}
	dst = append(dst, `,"service":{"type":"postgresql"`...)
	dst = appendField(dst, "name", []byte(s.Cluster))
	if systemID != 0 {
		dst = append(strconv.AppendUint(append(dst, `,"id":"`...), systemID, 10), '"')
	}
	return append(dst, '}')
}

func (f *ecsFormat) Append(dst []byte, r *format.Record) []byte {
	dst = f.clock.append(append(dst, `{"@timestamp":"`...), r.Time, 'T')
	dst = append(dst, `Z","ecs":{"version":"`+ECSVersion+`"}`...)
	if r.Text != nil {
		dst = f.jsonText(append(dst, `,"message":`...), r)
	}
	dst = f.event(dst, r)
	dst = append(dst, f.ofServer(r)...)
	dst = f.context(dst, r, ecsContext)
	if r.Has(format.FieldError) {
		dst = appendJSON(append(dst, `,"error":{"code":`...), r.SQLState)
		dst = append(appendField(dst, "message", r.Message), '}')
	}
	dst = append(append(append(dst, `,"pg_steno":{"kind":"`...), r.Kind.String()...), '"')
	dst = append(r.Session.ID().Append(append(dst, `,"session":"`...)), '"')
	dst = appendFacts(dst, r.Session, format.KeyDatabase, format.KeyApplication, format.KeyAppContext)
	dst = appendLeader(dst, r.Session)
	if isConnection(r.Kind) {
		dst = appendFacts(dst, r.Session, format.KeyBackendType, format.KeyAuthMethod, format.KeyIdentity)
	}
	return append(f.appendCommonFields(dst, r), "}}\n"...)
}

func (f *ecsFormat) event(dst []byte, r *format.Record) []byte {
	dst = append(dst, `,"event":{"kind":"event",`...)
	statement := r.Kind == format.KindStatement || r.Kind == format.KindStart
	if event, ok := ecsEvents[r.Kind]; ok {
		dst = append(dst, event...)
	} else {
		types, ok := "", false
		if statement && r.Shape != nil {
			types, ok = ecsTypes[r.Shape.Class]
		}
		if !ok {
			types = `"category":["database"],"type":["info"`
		}
		dst = append(dst, types...)
		if isFailure(r) {
			dst = append(dst, `,"error"`...)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"action":`...)
	if statement && r.Shape != nil && len(r.Shape.Command) > 0 {
		dst = appendJSON(dst, r.Shape.Command)
	} else {
		dst = append(append(append(dst, '"'), r.Kind.String()...), '"')
	}
	dst = append(append(append(dst, `,"outcome":"`...), ecsOutcome(r)...), '"')
	dst = append(appendID(append(dst, `,"id":"`...), r), '"')
	if r.Seq != 0 {
		dst = appendNumber(dst, "sequence", r.Seq)
	}
	if r.Has(format.FieldDuration) && r.Duration < 1<<53 {
		dst = strconv.AppendUint(append(dst, `,"duration":`...), r.Duration*1000, 10)
	}
	if isCompleted(r) {
		dst = f.clock.append(append(dst, `,"start":"`...), r.Time, 'T')
		dst = f.clock.append(append(dst, `Z","end":"`...), r.End(), 'T')
		dst = append(dst, `Z"`...)
	}
	return append(dst, `,"module":"pg_steno","dataset":"pg_steno.trail"}`...)
}

func ecsOutcome(r *format.Record) string {
	switch {
	case isFailure(r):
		return "failure"
	case r.Outcome == format.OutcomeOk && r.Kind != format.KindStart && r.Kind != format.KindGap:
		return "success"
	}
	return "unknown"
}

func ecsContext(dst []byte, s *format.Session) []byte {
	dst = append(dst, `,"process":{"pid":`...)
	dst = append(strconv.AppendUint(dst, uint64(s.PID), 10), '}')
	user, role, appUser := s.Fact(format.KeyUser), s.Fact(format.KeyRole), s.Fact(format.KeyAppUser)
	if len(user) > 0 {
		dst = appendJSON(append(dst, `,"user":{"name":`...), user)
		if len(role) > 0 {
			dst = append(appendJSON(append(dst, `,"effective":{"name":`...), role), '}')
		}
		dst = append(dst, '}')
	}
	if len(appUser) > 0 {
		dst = append(appendJSON(append(dst, `,"client":{"user":{"name":`...), appUser), "}}"...)
	}
	address, port, ip := endpoint(s.Fact(format.KeyClient))
	if len(address) > 0 {
		dst = appendJSON(append(dst, `,"source":{"address":`...), address)
		if ip {
			dst = appendField(dst, "ip", unscoped(address))
		}
		if len(port) > 0 {
			dst = append(append(dst, `,"port":`...), port...)
		}
		dst = append(dst, '}')
	}
	return ecsRelated(dst, ip, address, user, role, appUser, s.Fact(format.KeyIdentity))
}

// ecsRelated appends all users and addresses of an event.
func ecsRelated(dst []byte, ip bool, address []byte, users ...[]byte) []byte {
	from := len(dst)
	for i, u := range users {
		if len(u) == 0 || contains(users[:i], u) {
			continue
		}
		if len(dst) == from {
			dst = append(dst, `,"related":{"user":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendJSON(dst, u)
	}
	named := len(dst) > from
	if named {
		dst = append(dst, ']')
	}
	if ip {
		if named {
			dst = append(dst, ',')
		} else {
			dst = append(dst, `,"related":{`...)
		}
		dst = append(appendJSON(append(dst, `"ip":[`...), unscoped(address)), ']')
	}
	if named || ip {
		dst = append(dst, '}')
	}
	return dst
}

// unscoped removes the zone from a link-local address, which ECS does not allow in fields of type ip.
func unscoped(address []byte) []byte {
	address, _, _ = bytes.Cut(address, []byte("%"))
	return address
}

func contains(list [][]byte, s []byte) bool {
	for _, l := range list {
		if string(l) == string(s) {
			return true
		}
	}
	return false
}
