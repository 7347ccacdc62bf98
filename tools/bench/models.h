/* Models: `accrue bench` measures their ops and updates. A model is one line of the table
 * in models.c; what is not there for its ops alone has the shape of a preset (models/presets.h). */
#ifndef TOOLS_BENCH_MODELS_H
#define TOOLS_BENCH_MODELS_H

#include "common/storage.h"

#include <accrue/accrue.h>

typedef struct bench_model {
  const char *name;
  int64_t batch;   /* samples of a window */
  int64_t context; /* tokens of a sample; 0: samples are not text */
  int64_t limit;   /* the limit of its integer inputs: tokens or classes */
  bool ops, steps; /* `accrue bench` measures its ops, or its update, unless a model is asked for */
  /* With its loss; NULL: the preset of this name. */
  void (*build)(ac_graph *graph, int64_t context);
} bench_model;

extern const bench_model bench_models[];
extern const int bench_model_count;

/* "gpt2-124m|gpt-small|...", in the table's order; returns text. */
const char *bench_model_names(char *text, size_t size);

/* The settings of an update; zero means the model's or the planner's choice. */
typedef struct bench_setting {
  int64_t batch, context, micro_batch;
  uint64_t memory;
  ac_precision precision;
  ac_recompute recompute;
  storage_flags storage;
  bool beyond_device; /* plan even if the device has no room */
} bench_setting;

/* A model's graph planned on a device, with samples for one window. */
typedef struct bench_planned {
  ac_graph *graph;
  ac_plan *plan;
  int64_t batch, context;
  ac_feed feeds[8];
  int feed_count;
} bench_planned;

/* "batch 4, context 64", and further settings. */
void bench_model_detail(char *text, size_t size, const bench_model *model,
                        const bench_setting *setting);

/* Why a function below failed, as a sentence: of the library, or of this file. Ask for it once. */
const char *bench_error(void);

/* Prints it, and returns the exit status: an argument that the library refuses is wrong usage. */
int bench_fail(ac_status status);

/* Plans without a budget unless the setting has one. bench_planned_close is needed in any case. */
ac_status bench_planned_open(bench_planned *p, const bench_model *model,
                             const bench_setting *setting, ac_device *device);
void bench_planned_close(bench_planned *p);

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct bench_stepper {
  ac_trainer *trainer;
  const bench_planned *planned;
} bench_stepper;

ac_status bench_stepper_open(bench_stepper *s, const bench_planned *planned);
void bench_stepper_close(bench_stepper *s);

/* Runs so many windows of one effective batch: forward, backward, update. An ac_bench_run. Fails if
 * an update is skipped, as it has not done what is measured. */
ac_status bench_stepper_run(void *stepper, int64_t runs);

#endif
