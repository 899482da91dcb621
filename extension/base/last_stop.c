/*
 * extension/base/last_stop.c
 *		What the server's WAL and control file tell about the time between the last
 *		stop and this start.
 *
 * Nothing is recorded while the server is down.  But it can run without pg_steno, in
 * which case its statements have no records either, and a trail alone cannot tell the
 * two apart.  The WAL can: a server that stops writes a shutdown checkpoint as its last
 * WAL record, and one that starts writes after it.
 *
 * The record of a stop therefore has the position in the WAL at which it was made, when
 * no session could run a statement any more.  At the next start, the control file, read before
 * the server changes it, has the position of the last shutdown checkpoint.  If that is the
 * first one after the position of the stop, and between the two there is nothing that a
 * session could have written, then the server was not run in between: neither to write nor
 * to read.  The record of the start says so, by repeating the position of the stop.  (A server that
 * ran and was not shut down has left a control file that says so.)
 *
 * It does not if the server was not shut down, if it was a standby, whose WAL comes from
 * elsewhere, or if the WAL cannot be read.
 */
#include "base/steno.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/rmgr.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/standbydefs.h"
#include "utils/timestamp.h"

#include "base/last_stop.h"
#include "trail/file.h"

/* More records than background processes write while the server stops. */
#define RECORDS_MOST 1000

/*
 * What the control file says of the last stop: set by the postmaster at the beginning of a run, and
 * inherited.  checkpoint is 0 if the server was not shut down.
 */
static struct
{
	XLogRecPtr	checkpoint;
	TimeLineID	timeline;
	pg_time_t	time;
}			shut_down;

/* In the postmaster, at the beginning of a run, before the server changes its control file. */
void
steno_last_stop_begin_run(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);

	memset(&shut_down, 0, sizeof(shut_down));
	if (crc_ok && control->state == DB_SHUTDOWNED)
	{
		shut_down.checkpoint = control->checkPoint;
		shut_down.timeline = control->checkPointCopy.ThisTimeLineID;
		shut_down.time = control->checkPointCopy.time;
	}
	pfree(control);
}

/* ---- the stop ---- */

/* A stop now.  On a standby, whose WAL is not its own, wal is 0. */
void
steno_last_stop_now(StenoStop *stop)
{
	memset(stop, 0, sizeof(*stop));
	if (RecoveryInProgress())
		return;
	stop->wal = GetXLogInsertRecPtr();
	stop->timeline = GetWALInsertionTimeLine();
	stop->time = GetCurrentTimestamp();
}

/* ---- the start ---- */

/* A segment of the WAL that is open. */
typedef struct WalFile
{
	TimeLineID	timeline;
	XLogSegNo	number;
	int			fd;				/* -1: none */
} WalFile;

/* Callback of the WAL reader: a page; -1 if it cannot be read. */
static int
read_wal_page(XLogReaderState *reader, XLogRecPtr page, int wanted, XLogRecPtr record, char *to)
{
	WalFile    *f = reader->private_data;
	XLogSegNo	number;
	char		path[MAXPGPATH];

	XLByteToSeg(page, number, wal_segment_size);
	if (f->fd < 0 || f->number != number)
	{
		if (f->fd >= 0)
			close(f->fd);
		f->number = number;
		XLogFilePath(path, f->timeline, number, wal_segment_size);
		f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (f->fd < 0)
			return -1;
	}
	return steno_read_at(f->fd, to, XLOG_BLCKSZ, XLogSegmentOffset(page, wal_segment_size)) ? XLOG_BLCKSZ : -1;
}

/* Whether background processes write such a record by themselves while the server stops. */
static bool
is_housekeeping(XLogReaderState *reader)
{
	uint8		info = XLogRecGetInfo(reader) & ~XLR_INFO_MASK;

	switch (XLogRecGetRmid(reader))
	{
		case RM_XLOG_ID:
#ifdef XLOG_CHECKPOINT_REDO
			if (info == XLOG_CHECKPOINT_REDO)
				return true;
#endif
			return info == XLOG_CHECKPOINT_ONLINE || info == XLOG_SWITCH;
		case RM_STANDBY_ID:
			return info == XLOG_RUNNING_XACTS;
		default:
			return false;
	}
}

static bool
is_shutdown_checkpoint(XLogReaderState *reader)
{
	return reader->ReadRecPtr == shut_down.checkpoint && XLogRecGetRmid(reader) == RM_XLOG_ID &&
		(XLogRecGetInfo(reader) & ~XLR_INFO_MASK) == XLOG_CHECKPOINT_SHUTDOWN;
}

/*
 * Whether the shutdown checkpoint is the first record of the next segment, and the only one before it is at that
 * position.  Then that one has switched the segment, which a server that archives does before it shuts down.  The
 * segment that it ended may have been removed by the checkpoint.  A server that recovers writes another checkpoint
 * first, so that it is none of another run.
 */
static bool
follows_switch(XLogReaderState *reader, XLogRecPtr from)
{
	return XLogRecGetPrev(reader) == from &&
		XLogSegmentOffset(shut_down.checkpoint, wal_segment_size) == SizeOfXLogLongPHD &&
		shut_down.checkpoint / wal_segment_size == from / wal_segment_size + 1;
}

/* Whether nothing but housekeeping is in the WAL from a position until the shutdown checkpoint of the last stop. */
static bool
leads_to_checkpoint(XLogReaderState *reader, XLogRecPtr from)
{
	char	   *message;
	int			i;

	XLogBeginRead(reader, shut_down.checkpoint);
	if (XLogReadRecord(reader, &message) == NULL || !is_shutdown_checkpoint(reader))
		return false;
	if (follows_switch(reader, from))
		return true;
	XLogBeginRead(reader, from);
	for (i = 0; i < RECORDS_MOST && XLogReadRecord(reader, &message) != NULL; i++)
	{
		if (is_shutdown_checkpoint(reader))
			return true;
		if (reader->ReadRecPtr >= shut_down.checkpoint || !is_housekeeping(reader))
			return false;
	}
	return false;
}

/* The same, with a WAL reader of its own. */
static bool
is_last_run(XLogRecPtr from)
{
	WalFile		file = {.timeline = shut_down.timeline, .fd = -1};
	XLogReaderState *reader;
	bool		result;

	reader = XLogReaderAllocate(wal_segment_size, NULL, XL_ROUTINE(.page_read = read_wal_page), &file);
	if (reader == NULL)
		return false;
	result = leads_to_checkpoint(reader, from);
	XLogReaderFree(reader);
	if (file.fd >= 0)
		close(file.fd);
	return result;
}

/* Whether the server was not run since that stop, and when it had shut down after it.  False if that is not certain. */
bool
steno_not_run_since(const StenoStop *stop, TimestampTz *time)
{
	if (stop->wal == 0 || shut_down.checkpoint == 0)
		return false;
	*time = time_t_to_timestamptz(shut_down.time);
	return stop->timeline == shut_down.timeline && stop->wal <= shut_down.checkpoint &&
		stop->wal % XLOG_BLCKSZ != 0 && *time + USECS_PER_SEC > stop->time && *time <= GetCurrentTimestamp() &&
		is_last_run(stop->wal);
}
