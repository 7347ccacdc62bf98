/* Windows that raised the alarm for spikes, from lines "spike" of the metrics. */
#ifndef TOOLS_REPORT_SPIKES_H
#define TOOLS_REPORT_SPIKES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct spike_line {
  double step;
  bool skipped, went_back;
} spike_line;

typedef struct spike_lines {
  spike_line *lines; /* their updates increase */
  size_t count, room;
} spike_lines;

/* False: the line is damaged, or there is no memory for it. */
bool spikes_take(spike_lines *spikes, const json_t *line);
void spikes_free(spike_lines *spikes);

/* As a sentence; nothing if there are none. */
void spikes_put(FILE *page, const spike_lines *spikes);

#endif
