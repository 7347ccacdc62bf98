/* A small transformer for tests, with everything a GPT has, and what plans of a graph offer. */
#ifndef AC_TESTS_MODELS_H
#define AC_TESTS_MODELS_H

#include "check.h"

#include <stdio.h>

typedef struct test_gpt {
  int64_t layers, width, context, vocab;
  int heads;
  float dropout;
  bool weighted; /* a third input "weights" [B, T] */
  bool fused;    /* the loss is one op with the head */
} test_gpt;

ac_tensor *test_matrix(ac_graph *g, const char *scope, const char *name, int64_t rows,
                       int64_t columns);
ac_tensor *test_norm(ac_graph *g, ac_tensor *x, const char *scope, const char *name, int64_t width);

/* Inputs "tokens" and "targets" [B, T], targets of -1 ignored; output "logits". */
ac_graph *test_gpt_graph(const test_gpt *m);

/* The one with these reliefs and no others; `bytes` is 0 where there is none. */
ac_plan_offer test_offer(const ac_graph *graph, ac_device *device, ac_plan_desc desc,
                         unsigned reliefs);

/* The smallest budget of a plan, as the refusal of a smaller one says. */
uint64_t least_budget(const ac_graph *graph, ac_device *device, ac_plan_desc desc);

#endif
