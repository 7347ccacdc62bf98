/* What a fragment of C in the documentation may use. tests/docs/snippets.py compiles each block of
 * C with this file before it. If its first line is indented, a block is the inside of a function,
 * and sees the variables of SNIPPET_VARIABLES. */
#ifndef ACCRUE_TESTS_DOCS_SNIPPETS_H
#define ACCRUE_TESTS_DOCS_SNIPPETS_H

#include <accrue/accrue.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>
#endif

#define SNIPPET_VARIABLES                       \
  ac_graph *graph = NULL;                       \
  ac_device *device = NULL;                     \
  ac_plan *plan = NULL;                         \
  ac_trainer *trainer = NULL;                   \
  ac_learner *learner = NULL;                   \
  ac_fit_result result;                         \
  ac_dataset *train = NULL, *validation = NULL; \
  const char *folder = "mnist";
#define SNIPPET_USED                                                                              \
  (void)learner, (void)result, (void)graph, (void)device, (void)plan, (void)trainer, (void)train, \
      (void)validation, (void)folder;

/* examples/circle.cpp has these. */
#define SNIPPET_CXX_VARIABLES        \
  ac_device_desc on = AC_DEFAULTS;   \
  ac_plan_desc policy = AC_DEFAULTS; \
  ac_fit_desc fit = AC_DEFAULTS;     \
  (void)on, (void)policy, (void)fit;

#endif
