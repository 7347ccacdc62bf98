/* Comparing the logits of models: what `accrue export` proves its files by. */
#ifndef TOOLS_PROGRAM_EXPORT_PROOF_H
#define TOOLS_PROGRAM_EXPORT_PROOF_H

#include <accrue/accrue.h>

/* The tokens that models are compared on. */
typedef struct proof_text {
  int32_t *tokens; /* [samples, context] */
  int64_t samples, context;
} proof_text;

/* Takes the tokens of a file, or of a text that is built in, if `path` is NULL. A model without
 * a tokenizer gets numbers. A status of message.h. */
int proof_text_make(proof_text *text, ac_model *model, const char *path);
/* Room for the most tokens; all are 0. */
int proof_text_make_room(proof_text *text, const ac_model *model);
void proof_text_free(proof_text *text);

/* A model that computes. */
typedef struct proof_model {
  ac_graph *graph;
  ac_plan *plan;
  ac_session *session;
} proof_model;

/* Builds a graph with the output "logits" and a session of it; its parameters have no values yet.
 * A status of message.h. */
int proof_model_open(proof_model *p, const ac_model *model, const ac_model_graph_desc *desc,
                     const proof_text *text, ac_device *device);
void proof_model_close(proof_model *p);

/* Copies all parameters into a model that has them as well. A status of message.h. */
int proof_model_copy(const proof_model *to, const proof_model *from);

/* All logits [samples, context, vocabulary]; free() frees them. A status of message.h. */
int proof_logits(float **logits, const proof_model *p, const proof_text *text, int64_t vocabulary);

typedef struct proof_difference {
  double largest; /* of the magnitudes of differences */
  double mean;    /* the root of the mean of their squares */
  double logit;   /* the largest magnitude of a logit of the first */
  bool finite;    /* all are */
} proof_difference;

proof_difference proof_compare(const float *a, const float *b, int64_t count);

/* The most by which logits of two computations with equal weights differ if only their sums are
 * rounded differently. */
double proof_allowed(const ac_model_info *info, double largest_logit);

#endif
