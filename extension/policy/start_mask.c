/*
 * extension/policy/start_mask.c
 *		Which statements have start records, and which wait until their records are on
 *		disk: steno_my.start_mask, a bit for each class, and bits for what the session
 *		has to look at besides (start_mask.h).
 *
 * Every statement looks at the mask of its class anyway: a session that asks for none of
 * this does not pay for it.  Nobody but this process reads or sets the mask.
 */
#include "policy/start_mask.h"

#include "policy/policy.h"

/* What start_mask is made of. */
static uint32 log_start_classes;	/* steno.log_start */
static uint32 sync_classes;		/* steno.sync */
static uint32 rule_classes;		/* a rule with the action sync may match */
static uint32 rule_all;			/* of these, whose statements all match it */

static void
set_start_mask(void)
{
	steno_my.start_mask = (steno_my.start_mask & ~STENO_START_CLASSES) |
		((steno_my.start_mask & STENO_START_SHORT) ? STENO_START_CLASSES :
		 (log_start_classes | sync_classes | rule_classes) & STENO_START_CLASSES);
}

/* Whether statements that begin must look for the reserve of the ring first. */
STENO_COLD void
steno_start_mask_short(bool is_short)
{
	if (is_short)
		steno_my.start_mask |= STENO_START_SHORT;
	else
		steno_my.start_mask &= ~STENO_START_SHORT;
	set_start_mask();
}

/* Settings have come into force. */
void
steno_start_mask_adopt(const StenoWanted *wanted)
{
	log_start_classes = wanted->start_mask;
	sync_classes = wanted->sync_mask;
	set_start_mask();
}

/* The session's rules have been chosen: classes of which they sync some statements, and all. */
void
steno_start_mask_rules(uint32 some, uint32 all)
{
	rule_classes = some;
	rule_all = all;
	set_start_mask();
}

bool
steno_is_synced(const StenoStatement *s)
{
	return ((sync_classes | rule_all) & (1u << s->class)) != 0 || (s->policy & STENO_S_SYNC);
}

/* A statement begins whose class is in start_mask: whether it has a start record. */
STENO_COLD bool
steno_start_mask_begin(const StenoStatement *s)
{
	if (steno_is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
	else if (!(log_start_classes & (1u << s->class)))
		return false;
	return true;
}

/* A statement is recorded that did not seem to be when it began. */
STENO_COLD void
steno_start_mask_late(const StenoStatement *s)
{
	if ((steno_my.start_mask & (1u << s->class)) && steno_is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
}

/* A prepared transaction is finished, and what was in it is not known. */
STENO_COLD void
steno_start_mask_prepared(void)
{
	if ((sync_classes | rule_classes) & STENO_START_CLASSES)
		steno_my.start_mask |= STENO_START_SYNC;
}

/* Whether transactions that write wait for the disk at their end, whatever ran in them. */
bool
steno_transactions_are_synced(void)
{
	return ((sync_classes | rule_all) & (1u << STENO_CLASS_TRANSACTION)) != 0;
}
