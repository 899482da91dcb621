/*
 * core/test/rule_files.h
 *		Files in memory for the parser of rules.
 */
#ifndef STENO_RULE_FILES_H
#define STENO_RULE_FILES_H

#include "filter/rules.h"

typedef struct MemoryFile
{
	const char *name;
	const char *content;
	size_t		len;
} MemoryFile;

typedef struct MemoryFiles
{
	const MemoryFile *files;
	int			count;
	StenoRuleFiles functions;
} MemoryFiles;

extern void memory_files(MemoryFiles *m, const MemoryFile *files, int count);

#endif							/* STENO_RULE_FILES_H */
