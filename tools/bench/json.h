/* Results of `accrue bench` as JSON, and the comparison of two such documents. */
#ifndef TOOLS_BENCH_JSON_H
#define TOOLS_BENCH_JSON_H

#include "bench/rows.h"

#include <jansson.h>
#include <stdio.h>

/* {"version", "footprint", "samples", "visits", "devices": [{"id", ..., "roofs"}], "rows":
 * [{"kind", "name", "detail", "precision", ..., "results": [{"device", "median_seconds", "spread",
 * ...}]}]}; NULL: no memory. */
json_t *bench_json(const bench_report *report);

/* Reads a document and checks its form. A status of message.h. */
int bench_json_read(json_t **document, const char *path);

/* Writes to `out` each result of `now` that is slower than the same of `then` by more than both
 * spreads together, each that only `then` has, and how many only `now` has. Results are the same if
 * kind, name, detail, model, precision and device are. Before these a line says where footprint,
 * samples, visits or a device's name, driver or compute units differ. */
typedef struct bench_changes {
  int compared, slower, faster;
  int noisy;   /* of the slower ones: one of the two results was not stable, so it may be noise */
  int missing; /* of `now`, without a counterpart */
  int gone;    /* of `then`, without a counterpart although they were asked for */
} bench_changes;

/* The results that `now` should have, on its devices. */
typedef struct bench_asked {
  bool kinds[BENCH_KINDS];
  const char *filter; /* as for bench_row_matches */
} bench_asked;
bench_changes bench_json_compare(const json_t *now, const json_t *then, const bench_asked *asked,
                                 FILE *out);

#endif
