/*
 * core/test/test.h
 *		A small harness: TEST(name) registers a function, CHECK() fails it.
 *
 * Every test runs in its own process, so that a crash or a resource limit
 * concerns only itself.  Random tests take their seed from STENO_TEST_SEED and
 * print it when they fail.
 */
#ifndef STENO_TEST_H
#define STENO_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct TestCase
{
	const char *name;
	const char *file;
	bool		threaded;		/* worth running under ThreadSanitizer */
	void		(*run) (void);
	struct TestCase *next;
} TestCase;

extern void test_register(TestCase *t);
extern void test_failed(const char *file, int line, const char *what);

/* Where a test may write: made for it, and removed after it. */
extern const char *test_folder(void);

/* STENO_TEST_<name>, or otherwise; for lengths of runs. */
extern uint64_t test_parameter(const char *name, uint64_t otherwise);

/* Where random tests begin. */
extern uint64_t test_seed(void);

/* Pseudo-random numbers (splitmix64). */
static inline uint64_t
test_random(uint64_t *state)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t
test_below(uint64_t *state, uint64_t n)
{
	return test_random(state) % n;
}

#define TEST_WITH(function, is_threaded) \
	static void function(void); \
	__attribute__((constructor)) static void register_##function(void) \
	{ \
		static TestCase t = {#function, __FILE__, is_threaded, function, NULL}; \
		test_register(&t); \
	} \
	static void function(void)

#define TEST(function) TEST_WITH(function, false)
#define THREADED_TEST(function) TEST_WITH(function, true)

#define CHECK(condition) \
	do \
	{ \
		if (!(condition)) \
			test_failed(__FILE__, __LINE__, #condition); \
	} while (0)

#endif							/* STENO_TEST_H */
