/*
 * extension/writer/alert.h
 *		steno.alert_command, run by a writer.
 */
#ifndef STENO_ALERT_H
#define STENO_ALERT_H

extern void steno_alert(const char *event, int stream, const char *message);
extern void steno_alert_tick(void);
extern void steno_alert_finish(void);

#endif							/* STENO_ALERT_H */
