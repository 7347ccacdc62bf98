/* What a run was and how it ended, in words. */
#ifndef TOOLS_REPORT_STORY_H
#define TOOLS_REPORT_STORY_H

#include "report/history.h"

#include <stdint.h>
#include <stdio.h>

/* Of one of `count` runs; of several each is introduced by its line in the pictures. */
void story_write(FILE *page, const history *runs, size_t count, size_t run);

/* A number of the plan, as the metrics have it or else run.json; -1: neither has. */
int64_t story_plan(const history *h, const char *key);

/* The bytes of a class; -1: the metrics do not tell. */
int64_t story_bytes(const history *h, const char *class);

#endif
