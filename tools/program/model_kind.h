/* The kinds of model that `accrue train` can build. A kind is one table of functions; its flags and
 * its configuration live in a struct of its own, which the functions receive as `model`. */
#ifndef TOOLS_PROGRAM_MODEL_KIND_H
#define TOOLS_PROGRAM_MODEL_KIND_H

#include "program/batch_flag.h"
#include "program/data.h"
#include "program/groups.h"
#include "program/loss_scale.h"
#include "program/rate.h"
#include "program/watch_flags.h"
#include "common/options.h"
#include "common/storage.h"

#include <accrue/accrue.h>
#include <jansson.h>

/* What --batch-norm says. */
typedef enum batch_norm_flag {
  BATCH_NORM_WHOLE,
  BATCH_NORM_EXACT,
  BATCH_NORM_MICRO,
  BATCH_NORM_FROZEN
} batch_norm_flag;

/* Flags that every kind shares. */
typedef struct train_flags {
  int64_t batch; /* the largest batch of a schedule, if there is one */
  batch_flag batches;
  int64_t micro_batch;
  int64_t steps, epochs; /* 0: not given */
  storage_flags storage;
  bool no_nesterov;   /* of muon */
  int muon_scale;     /* ac_muon_scale */
  double adamw_rate;  /* of muon; < 0: as the library has it */
  const char *freeze; /* patterns; NULL: nothing */
  group_flags groups;
  rate_flags rate;
  double beta1, beta2, weight_decay, momentum, clip;
  int clip_by;     /* ac_clipping */
  double ema;      /* 0: no average */
  int last_window; /* ac_last_window */
  loss_scale_flags loss_scale;
  int64_t eval_every, eval_samples, patience;
  int64_t examples; /* of images that are kept for a report; 0: none */
  double patience_gain;
  int64_t seed, threads;
  const char *fold, *rank; /* "I/N"; NULL: all samples */
  double rank_timeout;     /* seconds; 0: the default */
  int64_t ranks;           /* that a plan is for */
  const char *device;
  uint64_t memory; /* 0: what the device has */
  int64_t read_ahead, loader_threads;
  int batch_norm; /* batch_norm_flag */
  int precision;  /* ac_precision */
  bool debug_numerics;
  int recompute; /* ac_recompute */
  const char *init, *out, *metrics;
  bool resume;                /* also by resume_or_start */
  bool resume_or_start;       /* if the folder holds no run, it begins one */
  bool overwrite;             /* the run that the folder holds is replaced */
  const char *config;         /* file with flags, or run.json of a run to repeat */
  bool print_config;          /* as such a file, and no more */
  const char *preset;         /* NULL: none */
  int64_t save_every, keep;   /* updates; states */
  double save_minutes, grace; /* grace in seconds */
  double max_minutes;         /* of this start of the program; 0: no limit */
  const char *max_tokens;     /* of the whole run; NULL: no limit */
  int64_t max_samples;        /* the same in samples, once data are known; 0: no limit */
  const char *policy;         /* file; NULL: none */
  bool keep_best;
  const char *tensorboard; /* NULL: no event file */
  int64_t histograms;      /* 0: none */
  bool quiet;              /* only problems are reported */
  int noise_scale;         /* as in noise_words.h */
  int64_t noise_layers;    /* updates between lines of metrics; 0: none */
  watch_flags watch;
} train_flags;

/* Configuration for a model file's metadata. Names of the classes are the longest value. */
enum { CLASS_NAMES_BYTES = 64000 };
typedef struct model_metadata {
  ac_metadata entries[32];
  int count;
  char text[CLASS_NAMES_BYTES + 4096]; /* holds the values */
  size_t used;
  bool incomplete; /* something did not fit, so no file may be written with it */
} model_metadata;

/* Adds key = formatted value. */
void model_metadata_add(model_metadata *metadata, const char *key, const char *format, ...);

/* What a run of this model writes. */
typedef struct model_files {
  const char *weights, *config; /* names in the run's folder */
} model_files;

struct run_folder;

/* A parameter that is made of one of a file, as the model has it in another shape. */
typedef struct model_made {
  const char *name; /* NULL: there is none */
  int64_t count;
  const float *data;
} model_made;

/* What of a model can grow until a budget is full. */
typedef struct model_growth {
  const char *of;     /* "resolution", "context" */
  int64_t step, most; /* it is a multiple of step */
} model_growth;

typedef struct model_kind {
  const char *name;
  const char *what; /* is trained: "a network that classifies images" */
  const char *note; /* may be NULL */
  size_t size;      /* of its struct */
  /* Sets the struct's and the shared flags' defaults. */
  void (*defaults)(void *model, train_flags *flags);
  void (*add_options)(void *model, options *o);
  /* The model's flags that only matter for training; NULL: there are none. */
  void (*add_training_options)(void *model, options *o);
  /* Checks the flags and opens the data. Takes the model's shape from `init` (may be NULL) as far
   * as flags do not give it. Returns a status of message.h. */
  int (*prepare)(void *model, const options *o, const ac_model_file *init, const char *init_path,
                 train_data *data);
  /* The graph with its loss. Failures stick to the graph. */
  void (*build)(const void *model, ac_graph *graph);
  void (*describe)(const void *model, model_metadata *metadata);
  int64_t (*classes)(const void *model); /* NULL: the model classifies no images */
  bool (*segments)(const void *model);   /* whether it classifies their pixels; NULL: no */
  /* JSON for the config.json next to the weights; NULL function: there is none. Caller frees. NULL:
   * it could not be made, and a message has said why. */
  char *(*config_json)(const void *model, const ac_trainer *trainer);
  /* What --largest looks for, and the graph for that size. NULL functions: nothing. */
  model_growth (*growth)(const void *model);
  void (*grow)(void *model, int64_t size);
  const char *optional_prefix; /* of parameter names in files */
  /* Names of files next to the weights of --init that belong to the model; ends with NULL. NULL:
   * none. */
  const char *const *carried;

  /* Of images: which parameters a file gives, as patterns for names; NULL: all. NULL function: all.
   */
  const char *(*taken)(void *model);
  /* A parameter that `taken` leaves out, once the file has been read. NULL function: none. */
  model_made (*made)(const void *model);
  /* Refuses a file with weights that the model, as a trainer or a plan has it, lacks; NULL: none is
   * refused. */
  int (*check_file)(const void *model, bool (*has)(const void *in, const char *name),
                    const void *in, const char *path);

  /* ---- of models that begin with weights of others; each may be NULL ------------------------- */

  /* Checks the flags, and sets defaults that depend on other flags, before anything is opened. A
   * status of message.h, as all that return int. */
  int (*check)(void *model, const options *o, train_flags *flags);
  /* Says what is trained, in a line or two. */
  void (*introduce)(const void *model, const ac_plan *plan);
  /* Loads into a new trainer what the model is made of, before a state is loaded. */
  int (*load)(void *model, ac_trainer *trainer);
  /* The same, with all that was trained, into a session. */
  int (*load_session)(void *model, ac_session *session);
  /* Evaluates in another way than by the mean loss, if the data ask for it; *done: they do. *plain
   * then is a second accuracy. */
  ac_status (*judge)(const void *model, ac_session *session, ac_dataset *dataset,
                     ac_stop_callback stop, void *user, ac_evaluation *result, double *plain,
                     bool *done);
  /* What a result of `accrue eval` says of the data: of what trains, of what validates, or of both.
   * NULL: their samples. */
  void (*put_data)(const void *model, bool train, bool validation);
  /* Whether states leave out what training does not change: load has it. */
  bool (*base_apart)(const void *model);
  /* NULL: model.safetensors and config.json. */
  model_files (*files)(const void *model);
  /* Writes the weights; NULL: all parameters in f32. */
  ac_status (*save)(const void *model, ac_trainer *trainer, const char *path,
                    const ac_metadata *metadata, int metadata_count);
  /* Copies files to the run's folder that belong to its weights. */
  void (*carry)(const void *model, const struct run_folder *folder, bool replace);
  /* What run.json says of it as "base". */
  json_t *(*record)(const void *model);
  void (*close)(void *model);
} model_kind;

/* In the order of the help; ends with NULL. */
extern const model_kind *const model_kinds[];

#endif
