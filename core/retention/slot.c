/*
 * core/retention/slot.c
 *		Reads slot files: slots/<name> in the trail, in the format of FORMAT.md.
 *
 * A file that is not exactly in the format of a slot is not readable: nothing is
 * guessed, because retention deletes what no slot needs.  A slot that is not
 * readable needs everything.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scan.h"
#include "retention/slot.h"

static const char first_line[] = "pg_steno slot 1\n";

bool
steno_slot_name_is_valid(const char *name)
{
	size_t		len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return len > 0 && len < STENO_SLOT_NAME && name[len] == '\0';
}

/* ---- parsing ---- */

static bool
take_position(const char **p, const char *end, StenoSlotPosition *position)
{
	uint64_t	stream;

	if (!steno_scan_number(p, end, UINT32_MAX, &stream) ||
		!steno_scan_word(p, end, " segment ") ||
		!steno_scan_number(p, end, INT64_MAX, &position->segment) ||
		!steno_scan_word(p, end, " block ") ||
		!steno_scan_number(p, end, INT64_MAX, &position->block) ||
		!steno_scan_word(p, end, "\n"))
		return false;
	position->stream = (uint32_t) stream;
	return position->segment > 0 && position->block > 0;
}

bool
steno_slot_parse(const char *text, size_t len, StenoSlot *slot)
{
	const char *p = text;
	const char *end = text + len;
	uint64_t	created;

	slot->readable = false;
	slot->count = 0;
	if (!steno_scan_word(&p, end, first_line) || !steno_scan_word(&p, end, "created ") ||
		!steno_scan_number(&p, end, INT64_MAX, &created) || !steno_scan_word(&p, end, "\n"))
		return false;
	slot->created = (int64_t) created;
	while (p < end)
	{
		/* in the order of stream numbers, so each occurs at most once */
		if (slot->count == STENO_SLOT_STREAMS || !steno_scan_word(&p, end, "stream ") ||
			!take_position(&p, end, &slot->positions[slot->count]) ||
			(slot->count > 0 &&
			 slot->positions[slot->count].stream <= slot->positions[slot->count - 1].stream))
			return false;
		slot->count++;
	}
	slot->readable = true;
	return true;
}

uint64_t
steno_slot_wants(const StenoSlot *slot, uint32_t stream)
{
	uint32_t	i;

	for (i = 0; slot->readable && i < slot->count; i++)
		if (slot->positions[i].stream == stream)
			return slot->positions[i].segment;
	return 1;
}

/* ---- files ---- */

/* O_NONBLOCK, because the name may be that of a pipe. */
static bool
read_slot_file(const char *folder, StenoSlot *slot, StenoError *error)
{
	char		path[1100];
	char	   *text = malloc(STENO_SLOT_MAX_FILE + 1);
	size_t		len = 0;
	struct stat st;
	ssize_t		n = -1;
	int			fd;

	error->error = 0;
	if (snprintf(path, sizeof(path), "%s/%s", folder, slot->name) >= (int) sizeof(path))
		path[0] = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (text == NULL || fd < 0 || fstat(fd, &st) != 0)
		steno_failed(error, errno, "could not open slot", path);
	else if (!S_ISREG(st.st_mode))
		steno_failed(error, 0, "slot is not a regular file", path);
	else
	{
		while (len <= STENO_SLOT_MAX_FILE &&
			   (n = read(fd, text + len, STENO_SLOT_MAX_FILE + 1 - len)) != 0)
		{
			if (n > 0)
				len += (size_t) n;
			else if (errno != EINTR)
				break;
		}
		if (n < 0)
			steno_failed(error, errno, "could not read slot", path);
		else if (len > STENO_SLOT_MAX_FILE || !steno_slot_parse(text, len, slot))
			steno_failed(error, 0, "slot is not understood", path);
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return slot->readable;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const StenoSlot *) a)->name, ((const StenoSlot *) b)->name);
}

static bool
add_slot(StenoSlots *slots, const char *name)
{
	StenoSlot  *list = realloc(slots->list, (slots->count + 1) * sizeof(StenoSlot));

	if (list == NULL)
		return false;
	slots->list = list;
	memset(&list[slots->count], 0, sizeof(StenoSlot));
	strcpy(list[slots->count++].name, name);
	return true;
}

bool
steno_slots_read(const char *trail, StenoSlots *slots, StenoError *error)
{
	char		folder[1024];
	DIR		   *dir;
	struct dirent *entry;
	bool		ok = true;
	uint32_t	i;

	memset(slots, 0, sizeof(*slots));
	memset(error, 0, sizeof(*error));
	if (snprintf(folder, sizeof(folder), "%s/" STENO_SLOTS_FOLDER, trail) >= (int) sizeof(folder))
		return steno_failed(error, ENAMETOOLONG, "could not open folder", trail);
	dir = opendir(folder);
	if (dir == NULL)
		return errno == ENOENT || steno_failed(error, errno, "could not open folder", folder);
	for (errno = 0; ok && (entry = readdir(dir)) != NULL; errno = 0)
		if (steno_slot_name_is_valid(entry->d_name) && !add_slot(slots, entry->d_name))
			ok = steno_failed(error, ENOMEM, "could not read folder", folder);
	if (ok && errno != 0)
		ok = steno_failed(error, errno, "could not read folder", folder);
	closedir(dir);
	if (slots->count > 1)
		qsort(slots->list, slots->count, sizeof(StenoSlot), by_name);
	for (i = 0; ok && i < slots->count;)
	{
		StenoSlot  *slot = &slots->list[i];

		if (read_slot_file(folder, slot, error) || error->error != ENOENT)
			i++;
		else					/* dropped meanwhile */
			memmove(slot, slot + 1, (--slots->count - i) * sizeof(StenoSlot));
	}
	return ok;
}

void
steno_slots_free(StenoSlots *slots)
{
	free(slots->list);
	memset(slots, 0, sizeof(*slots));
}
