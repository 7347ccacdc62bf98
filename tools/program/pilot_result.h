/* The result of one run of a pilot, from its metrics, which stay even if the run is killed. */
#ifndef TOOLS_PROGRAM_PILOT_RESULT_H
#define TOOLS_PROGRAM_PILOT_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pilot_result {
  bool diverged; /* its loss stopped being finite; all below but steps is unknown */
  int64_t steps;
  double loss, accuracy; /* of the validation at the end */
  double units;          /* tokens, or samples where there are none */
  double seconds;        /* of updates, without evaluations */
  bool reached;          /* a validation had the wanted loss */
  double units_to_target, seconds_to_target;
} pilot_result;

/* `run`: id of the run that must have written the metrics. `target` < 0: none. `units`: tokens a
 * sample, or 1. If the loss of the last validation is not a number, the run has diverged. Returns a
 * status of message.h. */
int pilot_result_read(pilot_result *r, const char *metrics, const char *run, double target,
                      int64_t units);

json_t *pilot_result_json(const pilot_result *r);
/* False: that is none. */
bool pilot_result_take(pilot_result *r, const json_t *json);

#endif
