/* A model with several losses over one encoder, and what training it comes to in plain loops in
 * double: each loss's mean, their sum, the gradient of that.
 *
 *   h = tanh(We x + be)                                 x: [B, TOKENS, WIDTH]
 *   pixels   mean squared error of Wd h + bd and x      a row for each sample
 *   kinds    cross-entropy of Wk h + bk                 a row for each token
 *   flags    binary cross-entropy of Wf h               a row for each sample */
#ifndef AC_TESTS_LOSSES_H
#define AC_TESTS_LOSSES_H

#include "runs.h"

#include <math.h>

enum { COUNT = 11, BATCH = 8, TOKENS = 3, WIDTH = 4, HIDDEN = 5, CLASSES = 4 };
enum { PIXELS, KINDS, FLAGS, LOSSES };
#define RATE 0.25

/* Where each parameter lies among all. */
enum {
  ENCODER = 0,
  ENCODER_BIAS = ENCODER + HIDDEN * WIDTH,
  DECODER = ENCODER_BIAS + HIDDEN,
  DECODER_BIAS = DECODER + WIDTH * HIDDEN,
  CLASSIFIER = DECODER_BIAS + WIDTH,
  CLASSIFIER_BIAS = CLASSIFIER + CLASSES * HIDDEN,
  FLAGGER = CLASSIFIER_BIAS + CLASSES,
  SCALARS = FLAGGER + HIDDEN
};

typedef struct place_of_parameter {
  const char *name;
  int first, count;
} place_of_parameter;
enum { PARAMETERS = 7 };
extern const place_of_parameter places[PARAMETERS];

typedef struct losses {
  bool ignore, weighted; /* tokens of kinds: by target -1, by f32 weights */
  bool fused;            /* kinds come from linear_cross_entropy, without a bias */
  bool flags;            /* the third loss, with f32 weights */
  double factor[LOSSES];
  ac_loss_means means;
  int first_input; /* of the graph; the others follow in this order */
} losses;
enum { X_FIRST, KINDS_FIRST, WEIGHTS_FIRST };

int loss_count(const losses *l);
losses with_means(losses l, ac_loss_means means);

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct samples {
  float x[COUNT * TOKENS * WIDTH], weights[COUNT * TOKENS], flags[COUNT * TOKENS], shares[COUNT];
  int32_t kinds[COUNT * TOKENS];
} samples;

/* Sequences of unequal length where padding is ignored, some of length 0. */
samples make_samples(const losses *l);
ac_status feed_losses(run *r, const samples *d, int first, int count);
ac_dataset *losses_dataset(const samples *d);

/* ---- the model ------------------------------------------------------------------------------- */

ac_tensor *losses_matrix(ac_graph *g, const char *name, int rows, int columns);

typedef struct inputs {
  ac_tensor *x, *kinds, *weights;
} inputs;

inputs inputs_of(ac_graph *g, const losses *l);
ac_tensor *kinds_loss(ac_graph *g, ac_tensor *h, const inputs *in, const losses *l);
ac_tensor *flags_loss(ac_graph *g, ac_tensor *h);
ac_graph *losses_graph(const losses *l);

/* Plain SGD, so that a step is the gradient by the rate. */
run start_losses(const char *device, const losses *l, ac_plan_desc plan,
                 ac_loss_scaling_desc scaling);

/* Parameters or gradients; 0 for those that this model lacks. */
typedef struct scalars {
  float of[SCALARS];
} scalars;

scalars read_scalars(run *r, bool gradients);

/* ---- the reference --------------------------------------------------------------------------- */

typedef struct outcome {
  double loss, norm;
  double mean[LOSSES], weight[LOSSES], accuracy[LOSSES]; /* weight: what a mean is over */
  double gradient[SCALARS];
} outcome;

/* What is at work for one token. */
typedef struct token {
  const losses *losses;
  const double *p; /* parameters */
  const double *x, *h;
  double *dh;
  const double *scale; /* by loss: of its gradient */
  outcome *o;
} token;

void weigh(const losses *l, const samples *d, int first, int count, double weight[LOSSES]);

/* The window of samples [first, first + count): total = sum of factor x sum / weight. */
outcome reference(const losses *l, const samples *d, const scalars *parameters, int first,
                  int count);

/* ---- comparing ------------------------------------------------------------------------------- */

/* `where` says which run it is. */
void assert_near(const char *where, const char *what, double got, double expected, double most);
void assert_means(const char *where, const losses *l, const outcome *o, double loss,
                  const ac_loss_mean *means, int count, double tolerance);

/* What the update reports and has done to the parameters. */
void assert_update(const char *where, const losses *l, const outcome *o, const ac_update *update,
                   int count, const scalars *before, const scalars *after, double tolerance);

/* A window of samples [first, first + count) in calls of at most `piece` samples, against the
 * reference. */
ac_update train_window(const char *where, run *r, const losses *l, const samples *d, int first,
                       int count, int piece, double tolerance);

#endif
