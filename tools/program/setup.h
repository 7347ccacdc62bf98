/* Everything before a trainer exists: flags parsed and checked, data and device opened, the model's
 * graph built and planned. */
#ifndef TOOLS_PROGRAM_SETUP_H
#define TOOLS_PROGRAM_SETUP_H

#include "common/help.h"
#include "program/model_path.h"
#include "program/model_kind.h"
#include "program/plan_cache.h"
#include "program/policy.h"
#include "program/preset.h"
#include "program/run_folder.h"

#include <jansson.h>

/* The sources of flags. */
typedef struct setup_words {
  const char *verb;
  bool resumes; /* also the flags of the record, if a run is resumed */
  int argc;
  char **argv; /* with the model's kind, unless a record says it */
  void (*more)(options *o);
  ac_ranks *ranks;       /* that train together; NULL: one */
  const char *device;    /* in the place of the flag's; NULL: the flag's */
  shared_tokens *tokens; /* of all ranks in this process; NULL: each opens its own */
} setup_words;

typedef struct setup {
  setup_words words;
  const model_kind *kind;
  void *model; /* the kind's struct */
  options options;
  char command[32], summary[320];
  char init[MODEL_PATH_BYTES]; /* the file of --init; of a folder the weights in it */
  train_flags flags;
  train_data data;
  plan_cache *cache; /* NULL: none */
  ac_device *device; /* these two may be the cache's */
  ac_plan *plan;
  bool plan_is_shared;
  policy policy;
  int64_t steps; /* updates of the whole run */
  ac_trainer_desc trainer;
  json_t *recorded; /* where flags come from: --config, or the run to resume; NULL: none */
  char recorded_path[RUN_PATH_BYTES];
} setup;

/* For `accrue VERB --help`: lists the kinds of model. */
help_form setup_wants_help(int argc, char **argv);
int setup_help(const char *verb, help_form form);

/* The words begin with the model's kind, flags follow. Returns a status of message.h; setup_close
 * is needed in any case. `cache` (may be NULL) lends device and plan, and stores
 * those that it lacks. `check` (may be NULL) decides before data are read whether the flags are
 * accepted. */
int setup_open(setup *s, const setup_words *words, plan_cache *cache,
               int (*check)(const train_flags *f));

/* Parses the flags only: nothing is opened. `more` (may be NULL) adds flags of the command's own.
 */
int setup_parse(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o));

/* The same without plan and steps, and without data for kinds that do not need them: for commands
 * that make their own plans. */
int setup_open_model(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o));
/* The same for commands that need data. */
int setup_open_with_data(setup *s, const char *verb, int argc, char **argv,
                         void (*more)(options *o));

/* The description that the flags ask for, and a plan of it. `change` (may be NULL) changes the
 * description for the command. */
ac_plan_desc setup_plan_desc(const setup *s);
int setup_plan(const setup *s, void (*change)(ac_plan_desc *desc), ac_plan **plan);
/* The same in silence: a failure is the caller's to tell. */
ac_status setup_try_plan(const setup *s, void (*change)(ac_plan_desc *desc), ac_plan **plan);
void setup_close(setup *s);

/* The names of the files with the model's weights and with its description. */
model_files setup_files(const setup *s);
/* Loads what the model is made of into a new trainer; without --init and states. */
int setup_load(const setup *s, ac_trainer *trainer);
/* Refuses a file of --init that the model would take only a part of. */
int setup_check_init(const setup *s, const ac_trainer *trainer);
/* Loads the weights of --init, if it is given, without the head that is replaced. */
ac_status setup_take_init(const setup *s, ac_trainer *trainer);
/* Both. */
int setup_load_init(const setup *s, ac_trainer *trainer);

/* ---- offers.c -------------------------------------------------------------------------------- */

/* What a plan is made for. */
typedef struct setup_request {
  const setup *setup;
  void (*change)(ac_plan_desc *desc);
  int64_t micro_batch; /* used if flags leave it open; 0: it stays open */
} setup_request;

ac_plan_desc setup_describe(const setup_request *request, const setup *flags);

/* After a refusal: a table of what would need less memory, with the flags to add to those that were
 * given, and whether it fits the budget. */
void setup_print_offers(const setup_request *request, const ac_graph *graph);

/* The flags of the words, followed by more. As setup_parse. */
int setup_parse_words(setup *s, const setup_words *words);

#endif
