/* A description of a run and its end, in words. */
#ifndef TOOLS_REPORT_STORY_H
#define TOOLS_REPORT_STORY_H

#include "report/history.h"

#include <stdint.h>
#include <stdio.h>

/* For one of `count` runs. If there are several, the line of a run in the pictures comes first. */
void story_write(FILE *page, const history *runs, size_t count, size_t run);

/* A number of the plan, from the metrics or else from run.json; -1: neither has it. */
int64_t story_plan(const history *h, const char *key);

/* The bytes of a class; -1: the metrics do not have them. */
int64_t story_bytes(const history *h, const char *class);

#endif
