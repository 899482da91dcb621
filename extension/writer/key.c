/*
 * extension/writer/key.c
 *		Asks steno.encryption_key_command for the encryption key of the trail.
 *
 * The postmaster runs the command when it starts, so that the server does not start
 * if it fails, and wipes the key.  Each writer runs it again, when it starts and at
 * each reload, so that no other process ever has the key.  A writer opens its
 * stream only when it has the answer.  Later, it continues with its current key and
 * never waits for an answer: a command that hangs must not stop the writer, and
 * with it the server.  When a writer gets a new key, it begins a new segment at
 * once.
 *
 * The command's standard error is the server's.
 */
#include "writer/writer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/ipc.h"

/* Time after which the command is killed. */
#define KEY_TIMEOUT_S 60

/* Time between two attempts if the command fails. */
#define KEY_RETRY_MS 10000

extern char **environ;

/*
 * A run of the command.  text may contain a key, so it is wiped when the run ends,
 * whether or not it succeeded (end_command).
 */
typedef struct KeyCommand
{
	pid_t		pid;			/* 0: none */
	int			output;			/* read end of its pipe; -1: no command, or its output has ended */
	uint64		begun;			/* ticks, since the time of day may be set meanwhile */
	size_t		len;			/* bytes in text */
	char		text[STENO_KEY_DIGITS + 64];
	char		reason[256];	/* why the command failed */
} KeyCommand;

typedef enum
{
	KEY_RUNNING,
	KEY_GIVEN,
	KEY_REFUSED
} KeyResult;

/* State of this writer: its current key, and the run of the command that gets the next one. */
static StenoCrypt *keys;
static KeyCommand asked = {.output = -1};
static bool asking;				/* the last request has no answer yet */
static bool failing;			/* the last request failed, and that was logged */
static uint64 refused_at;		/* when it failed, in ticks; 0: no answer since the request */

static uint64
milliseconds_since(uint64 ticks)
{
	return steno_clock_us(&steno_my.clock, ticks, steno_clock_ticks(&steno_my.clock)) / 1000;
}

/* ---- the command ---- */

/* Kill the command and all other processes of its group, and wipe its output. */
static void
end_command(KeyCommand *c)
{
	int			i;

	if (c->output >= 0)
		close(c->output);
	if (c->pid > 0)
	{
		kill(-c->pid, SIGKILL);
		/* do not wait long: a process may not end at once, even after SIGKILL */
		for (i = 0; i < 100 && waitpid(c->pid, NULL, WNOHANG) == 0; i++)
			pg_usleep(1000L);
	}
	steno_cleanse(c->text, sizeof(c->text));
	c->output = -1;
	c->pid = 0;
	c->len = 0;
}

static KeyResult
refuse_key(KeyCommand *c, const char *reason)
{
	end_command(c);
	strlcpy(c->reason, reason, sizeof(c->reason));
	return KEY_REFUSED;
}

static KeyResult
begin_command(KeyCommand *c, const char *command)
{
	char		reason[200];
	int			ends[2];
	int			result;

	memset(c, 0, sizeof(*c));
	c->output = -1;
	if (pipe2(ends, O_CLOEXEC) != 0)
		result = errno;
	else
	{
		result = steno_process_start_command(command, environ, ends[1], &c->pid);
		close(ends[1]);
		c->output = ends[0];
		fcntl(c->output, F_SETFL, O_NONBLOCK);
	}
	if (result != 0)
	{
		snprintf(reason, sizeof(reason), "The command could not be started: %s.", strerror(result));
		return refuse_key(c, reason);
	}
	c->begun = steno_clock_ticks(&steno_my.clock);
	return KEY_RUNNING;
}

/*
 * Take the key from the output of the command, which has exited and whose output
 * was read completely.
 */
static KeyResult
take_key(KeyCommand *c, int status, uint8 *key)
{
	char		reason[256];

	c->pid = 0;
	if (status != 0)
	{
		char	   *what = wait_result_to_str(status);

		snprintf(reason, sizeof(reason), "The command failed: %s.", what);
		pfree(what);
		return refuse_key(c, reason);
	}
	if (!steno_key_parse(c->text, c->len, key))
	{
		/* the output must not be shown: it may be nearly a key */
		snprintf(reason, sizeof(reason), "The command printed %s%zu bytes that are not %d hexadecimal digits and a line end.",
				 c->len == sizeof(c->text) ? "at least " : "", c->len, STENO_KEY_DIGITS);
		return refuse_key(c, reason);
	}
	end_command(c);
	return KEY_GIVEN;
}

/*
 * Read the command's output, and check whether it has ended; never waits.  Output
 * that does not fit into text is read and discarded, so that the command can end:
 * it is too long for a key.
 */
static KeyResult
poll_command(KeyCommand *c, uint8 *key)
{
	int			status;
	pid_t		ended;

	while (c->output >= 0)
	{
		char		rest[64];
		bool		full = c->len == sizeof(c->text);
		ssize_t		n = read(c->output, full ? rest : c->text + c->len,
							 full ? sizeof(rest) : sizeof(c->text) - c->len);

		if (full)
			steno_cleanse(rest, sizeof(rest));
		else if (n > 0)
			c->len += n;
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
		{
			close(c->output);
			c->output = -1;
		}
		else if (n < 0 && errno != EINTR)
			break;
	}
	if (c->output < 0)
	{
		ended = waitpid(c->pid, &status, WNOHANG);
		if (ended == c->pid)
			return take_key(c, status, key);
		if (ended < 0 && errno != EINTR)
		{
			c->pid = 0;
			return refuse_key(c, "The command's end could not be waited for.");
		}
	}
	if (milliseconds_since(c->begun) >= KEY_TIMEOUT_S * 1000)
		return refuse_key(c, CppAsString2(KEY_TIMEOUT_S) " seconds have passed, and the command has not ended.");
	return KEY_RUNNING;
}

/* ---- the postmaster ---- */

void
steno_key_check(void)
{
	KeyCommand	command;
	KeyResult	result;
	uint8		key[STENO_KEY_SIZE];

	if (steno_encryption_key_command[0] == '\0')
		return;
	result = begin_command(&command, steno_encryption_key_command);
	while (result == KEY_RUNNING && (result = poll_command(&command, key)) == KEY_RUNNING)
	{
		struct pollfd wait = {.fd = command.output, .events = POLLIN};

		poll(&wait, 1, command.output >= 0 ? 100 : 10);
	}
	steno_cleanse(key, sizeof(key));
	if (result == KEY_REFUSED)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("could not get the encryption key of the trail from \"steno.encryption_key_command\""),
				 errdetail_internal("%s", command.reason),
				 errhint("The command must print %d hexadecimal digits and exit with 0. With an empty \"steno.encryption_key_command\", the trail is not encrypted.",
						 STENO_KEY_DIGITS)));
}

/* ---- writers ---- */

StenoCrypt *
steno_key_crypt(void)
{
	if (keys == NULL)
		keys = steno_crypt_create();
	if (keys == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return keys;
}

static void
end_asking(int code, Datum arg)
{
	end_command(&asked);
}

void
steno_key_request(const StenoWriter *w)
{
	static bool registered;

	if (!registered)
		on_proc_exit(end_asking, (Datum) 0);
	registered = true;
	end_command(&asked);
	refused_at = 0;
	failing = false;
	asking = steno_encryption_key_command[0] != '\0';
	if (!asking)
	{
		steno_crypt_set_key(steno_key_crypt(), NULL);
		steno_health_set_problem(w, STENO_PROBLEM_ENCRYPTION, false);
	}
}

/* Report a failure, once until a request succeeds. */
static void
report_refusal(const StenoWriter *w)
{
	static const char *const consequences[] = {
		"Segments go on unencrypted; the command is run again every %d seconds.",
		"Segments go on with the present key; the command is run again every %d seconds.",
		"Records stay in the rings; the command is run again every %d seconds.",
	};
	/* 2: the writer has just started, and the stream is not open yet */
	int			which = w->stream.directory[0] != '\0' ? steno_crypt_active(keys) : 2;

	refused_at = steno_clock_ticks(&steno_my.clock);
	if (failing)
		return;
	failing = true;
	steno_health_set_problem(w, STENO_PROBLEM_ENCRYPTION, true);
	ereport(WARNING,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("could not get the encryption key of the trail from \"steno.encryption_key_command\""),
			 errdetail_internal("%s", asked.reason),
			 errhint(consequences[which], KEY_RETRY_MS / 1000)));
}

bool
steno_key_is_answered(const StenoWriter *w)
{
	KeyResult	result = KEY_RUNNING;
	uint8		key[STENO_KEY_SIZE];

	if (!asking)
		return true;
	if (asked.pid == 0)
	{
		if (refused_at != 0 && milliseconds_since(refused_at) < KEY_RETRY_MS)
			return false;
		result = begin_command(&asked, steno_encryption_key_command);
	}
	if (result == KEY_RUNNING)
		result = poll_command(&asked, key);
	if (result == KEY_GIVEN && !steno_crypt_set_key(steno_key_crypt(), key))
		result = refuse_key(&asked, "The key's hash could not be computed.");
	steno_cleanse(key, sizeof(key));
	if (result == KEY_REFUSED)
		report_refusal(w);
	asking = result != KEY_GIVEN;
	if (!asking)
		steno_health_set_problem(w, STENO_PROBLEM_ENCRYPTION, false);
	return !asking;
}

void
steno_key_report(const StenoWriter *w)
{
	const uint8 *id;

	if (!steno_crypt_active(keys))
	{
		ereport(LOG,
				(errmsg("steno writer %d does not encrypt the trail any more, from segment %llu on",
						w->number, (unsigned long long) w->stream.segment)));
		return;
	}
	id = steno_crypt_key_id(keys);
	ereport(LOG,
			(errmsg("steno writer %d encrypts the trail with key %02x%02x%02x%02x%02x%02x%02x%02x, from segment %llu on",
					w->number, id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7],
					(unsigned long long) w->stream.segment)));
}

void
steno_key_block_error(const StenoWriter *w, StenoError *error)
{
	memset(error, 0, sizeof(*error));
	strlcpy(error->what, "could not encrypt a block of stream", sizeof(error->what));
	strlcpy(error->path, w->stream.directory, sizeof(error->path));
}
