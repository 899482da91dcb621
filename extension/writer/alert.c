/*
 * extension/writer/alert.c
 *		steno.alert_command: a shell command for each change of a writer's state.
 *
 * Commands run one at a time, in the order of the events, in parallel with the
 * writer, which checks on them once a second.  One that takes too long is killed,
 * with all processes that it has started.  Their output goes to the server's
 * standard error.
 *
 * The details of an event are passed in environment variables.  A placeholder is
 * replaced by a variable in double quotes, so the shell never interprets the text
 * of a message.
 */
#include "writer/writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALERT_SECONDS 30		/* time limit of a command */
#define LAST_SECONDS 5			/* time limit of the remaining commands when the writer ends */
#define WAITING 8				/* maximum number of events that wait for their command */

typedef struct Alert
{
	const char *event;
	int			stream;
	char		message[STENO_FAILURE_TEXT];
} Alert;

static Alert waiting[WAITING];
static int	count;
static pid_t running;			/* 0: none */
static uint64 started;			/* ticks, since the time of day may be set meanwhile */
static bool killed;				/* whether the running command was killed */
static bool failure_reported;
static bool overflow_reported;

static bool
has_elapsed(uint64 start, int seconds)
{
	return steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)) >=
		seconds * UINT64CONST(1000000);
}

/* Name of a placeholder's variable; NULL if it is not a placeholder. */
static const char *
variable_of(char placeholder)
{
	switch (placeholder)
	{
		case 'e':
			return "STENO_EVENT";
		case 's':
			return "STENO_STREAM";
		case 'd':
			return "STENO_TRAIL";
		case 'm':
			return "STENO_MESSAGE";
		default:
			return NULL;
	}
}

/* The command for the shell, malloc'd, perhaps to be run in the background; NULL if out of memory. */
static char *
command_line(bool detached)
{
	const char *p;
	size_t		room = strlen(steno_alert_command) * 12 + 8;
	char	   *line = malloc(room);
	char	   *to = line;

	if (line == NULL)
		return NULL;
	if (detached)
		to += sprintf(to, "{ ");
	for (p = steno_alert_command; *p != '\0'; p++)
	{
		const char *variable = *p == '%' ? variable_of(p[1]) : NULL;

		if (variable)
		{
			to += sprintf(to, "\"$%s\"", variable);
			p++;
		}
		else
		{
			if (p[0] == '%' && p[1] == '%')
				p++;
			*to++ = *p;
		}
	}
	to += sprintf(to, "%s", detached ? "\n} &" : "");
	Assert((size_t) (to - line) < room);
	return line;
}

/* The server's environment and our variables; malloc'd. */
static char **
make_environment(char **own, int own_count)
{
	extern char **environ;
	int			n = 0;
	char	  **result;

	while (environ[n] != NULL)
		n++;
	result = malloc((n + own_count + 1) * sizeof(char *));
	if (result == NULL)
		return NULL;
	memcpy(result, own, own_count * sizeof(char *));
	memcpy(result + own_count, environ, (n + 1) * sizeof(char *));
	return result;
}

/* Report a failure, once until a command succeeds. */
static void
report_command_failure(const char *how)
{
	if (!failure_reported)
		ereport(WARNING,
				(errmsg("\"steno.alert_command\" failed: %s", how),
				 errdetail("The command was: %s", steno_alert_command)));
	failure_reported = true;
}

/*
 * Start the command for an event; detached: it runs in the background, and *pid is that of
 * a shell that ends at once.  Returns 0 or an errno value.
 */
static int
start_command(const Alert *a, bool detached, pid_t *pid)
{
	char		event[64];
	char		stream[64];
	char		trail[MAXPGPATH + 32];
	char		message[STENO_FAILURE_TEXT + 32];
	char	   *own[] = {event, stream, trail, message};
	char	   *line = command_line(detached);
	char	  **environment = make_environment(own, lengthof(own));
	int			error = ENOMEM;

	snprintf(event, sizeof(event), "STENO_EVENT=%s", a->event);
	snprintf(stream, sizeof(stream), "STENO_STREAM=%d", a->stream);
	snprintf(trail, sizeof(trail), "STENO_TRAIL=%s", steno_directory);
	snprintf(message, sizeof(message), "STENO_MESSAGE=%s", a->message);
	if (line && environment)
		/* its output goes where its errors go */
		error = steno_process_start_command(line, environment, STDERR_FILENO, pid);
	free(line);
	free(environment);
	return error;
}

static void
start_next(void)
{
	Alert		a = waiting[0];
	int			error;

	memmove(&waiting[0], &waiting[1], --count * sizeof(Alert));
	error = start_command(&a, false, &running);
	if (error != 0)
	{
		report_command_failure(strerror(error));
		return;
	}
	started = steno_clock_ticks(&steno_my.clock);
	killed = false;
}

/*
 * In a process that is no writer, for an event that the writer cannot tell of: run the
 * command in the background.  Nobody checks on it.
 */
void
steno_alert_at_once(const char *event, int writer, const char *message)
{
	Alert		a = {.event = event, .stream = writer};
	pid_t		pid;
	int			error;

	if (steno_alert_command == NULL || steno_alert_command[0] == '\0')
		return;
	strlcpy(a.message, message, sizeof(a.message));
	error = start_command(&a, true, &pid);
	if (error != 0)
		report_command_failure(strerror(error));
	else
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

/* Reap the running command if it has ended; kill it if it has run for too long. */
static void
reap_command(int seconds)
{
	int			status;
	pid_t		pid = waitpid(running, &status, WNOHANG);
	char		how[64];

	if (pid == 0)
	{
		/* do not wait for its end: it may hang in the kernel, on a failing disk */
		if (!killed && has_elapsed(started, seconds))
		{
			kill(-running, SIGKILL);
			killed = true;
			snprintf(how, sizeof(how), "it took longer than %d seconds, and was killed", seconds);
			report_command_failure(how);
		}
		return;
	}
	running = 0;
	if (killed)
		return;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		failure_reported = false;
	else if (pid > 0)
	{
		if (WIFSIGNALED(status))
			snprintf(how, sizeof(how), "it was terminated by signal %d", WTERMSIG(status));
		else
			snprintf(how, sizeof(how), "exit code %d", WEXITSTATUS(status));
		report_command_failure(how);
	}
}

/* Called once a second: check on the running command, and start the next one. */
void
steno_alert_check(void)
{
	if (running != 0)
		reap_command(ALERT_SECONDS);
	if (running == 0 && count > 0)
		start_next();
}

/* Queue the command for an event.  event must be a constant string, which is kept. */
void
steno_alert(const char *event, int stream, const char *message)
{
	if (steno_alert_command == NULL || steno_alert_command[0] == '\0')
		return;
	if (count == WAITING)
	{
		if (!overflow_reported)
			ereport(WARNING,
					(errmsg("\"steno.alert_command\" takes too long: an event was dropped")));
		overflow_reported = true;
		return;
	}
	overflow_reported = false;
	waiting[count].event = event;
	waiting[count].stream = stream;
	strlcpy(waiting[count].message, message, STENO_FAILURE_TEXT);
	count++;
	steno_alert_check();
}

/* The writer is about to end: the remaining commands get a few seconds. */
void
steno_alert_finish(void)
{
	uint64		begin = steno_clock_ticks(&steno_my.clock);

	while (running != 0 || count > 0)
	{
		if (has_elapsed(begin, LAST_SECONDS))
		{
			count = 0;
			if (running != 0)
				reap_command(0);
			break;
		}
		steno_alert_check();
		pg_usleep(10000L);
	}
}
