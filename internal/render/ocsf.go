// The format of the Open Cybersecurity Schema Framework.

package render

import (
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that
// records follow.
const OCSFVersion = "1.5.0"

// Classes of OCSF: category_uid and class_uid.
const (
	ocsfBase           = 0
	ocsfAuthentication = 3002
	ocsfDatastore      = 6005
)

// ocsfOther is the activity for which a class has no number of its own.
const ocsfOther = 99

// ocsfCommands has the activities of Datastore Activity by command.
var ocsfCommands = map[string]int{
	"SELECT": 4, "INSERT": 6, "UPDATE": 2, "DELETE": 7, "TRUNCATE TABLE": 7, "MERGE": 5,
}

// ocsfClasses has the activities by class, for all other commands.
var ocsfClasses = map[format.Class]int{format.ClassRead: 1, format.ClassWrite: 5}

// ocsfFormat makes a JSON object a line after OCSF: statements are Datastore
// Activity, how sessions begin and end is Authentication, the rest Base Event.
// What a class has no attribute for stands in unmapped.
type ocsfFormat struct {
	definitions
	own origin // the server, for Base Event
}

func (f *ocsfFormat) Start(ref *trail.BlockRef) {
	f.definitions.Start(ref)
	f.startBlock(ref, ocsfOrigin)
	f.own.startBlock(ref, appendOrigin)
}

// ocsfOrigin appends the server, where sessions go.
func ocsfOrigin(dst []byte, systemID uint64, s *trail.Server) []byte {
	from := len(dst)
	dst = appendField(dst, "hostname", []byte(s.Host))
	dst = appendField(dst, "svc_name", []byte(s.Cluster))
	if systemID != 0 {
		dst = append(strconv.AppendUint(append(dst, `,"uid":"`...), systemID, 10), '"')
	}
	if len(dst) == from {
		return dst
	}
	inside := string(dst[from+1:])
	return append(append(append(dst[:from], `,"dst_endpoint":{`...), inside...), '}')
}

func ocsfClass(k format.Kind) int {
	switch k {
	case format.KindStatement, format.KindStart, format.KindTransaction, format.KindSubtransaction:
		return ocsfDatastore
	}
	if isConnection(k) {
		return ocsfAuthentication
	}
	return ocsfBase
}

func ocsfActivity(r *format.Record) int {
	switch {
	case r.Kind == format.KindConnect || r.Kind == format.KindAuthFailed:
		return 1 // Logon
	case r.Kind == format.KindDisconnect:
		return 2 // Logoff
	case ocsfClass(r.Kind) != ocsfDatastore || r.Shape == nil:
		return ocsfOther
	}
	if a, ok := ocsfCommands[string(r.Shape.Command)]; ok {
		return a
	}
	if a, ok := ocsfClasses[r.Shape.Class]; ok {
		return a
	}
	return ocsfOther
}

func (f *ocsfFormat) Append(dst []byte, r *format.Record) []byte {
	class, activity := ocsfClass(r.Kind), ocsfActivity(r)
	dst = strconv.AppendInt(append(dst, `{"class_uid":`...), int64(class), 10)
	dst = strconv.AppendInt(append(dst, `,"category_uid":`...), int64(class/1000), 10)
	dst = strconv.AppendInt(append(dst, `,"activity_id":`...), int64(activity), 10)
	dst = strconv.AppendInt(append(dst, `,"type_uid":`...), int64(class*100+activity), 10)
	if activity == ocsfOther {
		dst = append(dst, `,"activity_name":`...)
		if r.Shape != nil && len(r.Shape.Command) > 0 {
			dst = appendJSON(dst, r.Shape.Command)
		} else {
			dst = append(append(append(dst, '"'), r.Kind.String()...), '"')
		}
	}
	dst = f.times(dst, r)
	dst = f.status(dst, r)
	dst = append(dst, `,"metadata":{"version":"`+OCSFVersion+`",`+
		`"product":{"name":"pg_steno","vendor_name":"pg_steno"},"log_name":"trail","event_code":"`...)
	dst = append(append(dst, r.Kind.String()...), `","uid":"`...)
	dst = append(appendID(dst, r), '"')
	if r.Seq != 0 {
		dst = appendNumber(dst, "sequence", r.Seq)
	}
	dst = f.clock.append(append(dst, `,"original_time":"`...), r.Time, 'T')
	dst = append(dst, `Z"}`...)
	if class != ocsfBase {
		dst = append(dst, f.ofServer(r)...)
	}
	switch class {
	case ocsfDatastore:
		dst = f.context(dst, r, ocsfDatastoreContext)
		dst = f.statement(dst, r)
	case ocsfAuthentication:
		dst = ocsfAuthenticationContext(dst, r.Session)
	default:
		dst = append(dst, `,"message":`...)
		if len(r.Text) > 0 {
			dst = f.jsonText(dst, r)
		} else {
			dst = appendJSON(dst, r.Kind.String())
		}
	}
	dst = f.clock.append(append(dst, `,"unmapped":{"time":"`...), r.Time, 'T')
	dst = append(dst, `Z"`...)
	if r.Has(format.FieldDuration) {
		dst = appendNumber(dst, "duration_us", r.Duration)
	}
	dst = appendFacts(dst, r.Session, format.KeyRole, format.KeyAppUser, format.KeyAppContext)
	dst = appendLeader(dst, r.Session)
	if isConnection(r.Kind) {
		dst = appendFacts(dst, r.Session, format.KeyBackendType, format.KeyIdentity)
	}
	switch class {
	case ocsfBase:
		dst = append(r.Session.ID().Append(append(dst, `,"session":"`...)), '"')
		dst = appendFacts(dst, r.Session, format.KeyUser, format.KeyDatabase)
		dst = append(dst, f.own.ofServer(r)...)
	case ocsfAuthentication:
		dst = appendFacts(dst, r.Session, format.KeyDatabase)
	}
	return append(f.appendCommonFields(dst, r), "}}\n"...)
}

// times appends the times, in milliseconds since 1970.
func (f *ocsfFormat) times(dst []byte, r *format.Record) []byte {
	ms := unixMilliseconds(r.Time)
	dst = strconv.AppendInt(append(dst, `,"time":`...), ms, 10)
	if isCompleted(r) {
		dst = strconv.AppendInt(append(dst, `,"start_time":`...), ms, 10)
		dst = strconv.AppendInt(append(dst, `,"end_time":`...), unixMilliseconds(r.End()), 10)
	}
	if r.Has(format.FieldDuration) {
		dst = appendNumber(dst, "duration", r.Duration/1000)
	}
	return dst
}

func (f *ocsfFormat) status(dst []byte, r *format.Record) []byte {
	severity := "1"
	switch {
	case r.Kind == format.KindGap:
		severity = "4"
	case r.Kind == format.KindAuthFailed:
		severity = "3"
	case isFailure(r) || r.Outcome == format.OutcomeInterrupted:
		severity = "2"
	}
	dst = append(append(dst, `,"severity_id":`...), severity...)
	switch {
	case isFailure(r):
		dst = append(dst, `,"status_id":2,"status":"Failure"`...)
	case r.Outcome == format.OutcomeOk && r.Kind != format.KindStart && r.Kind != format.KindGap:
		dst = append(dst, `,"status_id":1,"status":"Success"`...)
	default:
		status := r.Outcome.String()
		if r.Outcome == format.OutcomeOk {
			status = r.Kind.String()
		}
		dst = append(append(append(dst, `,"status_id":99,"status":"`...), status...), '"')
	}
	if r.Has(format.FieldError) {
		dst = appendField(dst, "status_code", r.SQLState)
		dst = appendField(dst, "status_detail", r.Message)
	}
	return dst
}

// statement appends the attributes of Datastore Activity that describe a statement.
func (f *ocsfFormat) statement(dst []byte, r *format.Record) []byte {
	if r.Text != nil {
		dst = appendID(append(dst, `,"query_info":{"uid":"`...), r)
		dst = append(f.jsonText(append(dst, `","query_string":`...), r), '}')
	}
	if r.Shape != nil && len(r.Shape.Relations) == 1 {
		if name := r.Shape.Relations[0].Name; len(name) > 0 {
			dst = append(appendJSON(append(dst, `,"table":{"name":`...), name), '}')
		}
	}
	return dst
}

// ocsfName appends a name, or another word where it must not be absent.
func ocsfName(dst, name []byte, absent string) []byte {
	if len(name) == 0 {
		return appendJSON(dst, absent)
	}
	return appendJSON(dst, name)
}

func ocsfDatastoreContext(dst []byte, s *format.Session) []byte {
	dst = append(dst, `,"actor":{`...)
	if user := s.Fact(format.KeyUser); len(user) > 0 {
		dst = append(appendJSON(append(dst, `"user":{"name":`...), user), "},"...)
	}
	dst = append(ocsfSession(dst, s), `,"process":{"pid":`...)
	dst = append(strconv.AppendUint(dst, uint64(s.PID), 10), '}')
	dst = appendField(dst, "app_name", s.Fact(format.KeyApplication))
	dst = ocsfName(append(dst, `},"database":{"name":`...), s.Fact(format.KeyDatabase), "unknown")
	dst = append(dst, `,"type_id":1,"type":"Relational"},"type_id":1,"type":"Database"`...)
	return ocsfSource(dst, s)
}

func ocsfSession(dst []byte, s *format.Session) []byte {
	dst = s.ID().Append(append(dst, `"session":{"uid":"`...))
	dst = strconv.AppendInt(append(dst, `","created_time":`...), unixMilliseconds(s.Start), 10)
	dst = strconv.AppendBool(append(dst, `,"is_remote":`...), isRemote(s))
	return append(dst, '}')
}

func isRemote(s *format.Session) bool {
	_, _, ip := endpoint(s.Fact(format.KeyClient))
	return ip
}

func ocsfSource(dst []byte, s *format.Session) []byte {
	address, port, ip := endpoint(s.Fact(format.KeyClient))
	if !ip {
		// The client is a Unix socket, or a process of the server itself.
		return append(ocsfName(append(dst, `,"src_endpoint":{"name":`...), address, "server"), '}')
	}
	dst = appendJSON(append(dst, `,"src_endpoint":{"ip":`...), address)
	if len(port) > 0 {
		dst = append(append(dst, `,"port":`...), port...)
	}
	return append(dst, '}')
}

// ocsfProtocols has OCSF's numbers of authentication methods.
var ocsfProtocols = map[string]string{"gss": "2", "sspi": "2", "ldap": "12", "radius": "10"}

func ocsfAuthenticationContext(dst []byte, s *format.Session) []byte {
	dst = ocsfName(append(dst, `,"user":{"name":`...), s.Fact(format.KeyUser), "unknown")
	dst = append(ocsfSession(append(dst, "},"...), s), `,"actor":{"process":{"pid":`...)
	dst = append(strconv.AppendUint(dst, uint64(s.PID), 10), '}')
	dst = append(appendField(dst, "app_name", s.Fact(format.KeyApplication)), '}')
	dst = ocsfSource(dst, s)
	dst = append(dst, `,"service":{"name":"postgresql"}`...)
	if method := s.Fact(format.KeyAuthMethod); len(method) > 0 {
		id := ocsfProtocols[string(method)]
		if id == "" {
			id = "99"
		}
		dst = append(appendField(dst, "auth_protocol", method), `,"auth_protocol_id":`...)
		dst = append(dst, id...)
	}
	dst = strconv.AppendBool(append(dst, `,"is_remote":`...), isRemote(s))
	return append(dst, `,"logon_type_id":3,"logon_type":"Network"`...)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
