/* Tests graphs in child processes, and makes failures small in the same way. */
#ifndef AC_TESTS_RANDOM_WORKER_H
#define AC_TESTS_RANDOM_WORKER_H

#include "random.h"

typedef struct random_job {
  uint64_t seed;
  bool opencl;
  const bool *wanted; /* each graph has an op of one of these families; NULL: of any */
} random_job;

typedef struct random_failure {
  int64_t index; /* of the graph */
  int choice;
  char text[1024]; /* empty: none */
} random_failure;

/* Checks graphs [first, end) up to the first that fails; returns where to go on. */
int64_t random_work(const random_job *job, int64_t first, int64_t end, random_counts *counts,
                    random_failure *failure);

/* Checks one recipe in a process of its own; the text is empty if it is good. */
void random_work_on(const random_job *job, const random_recipe *recipe,
                    const random_choice *choices, unsigned mask, random_failure *failure);

/* Prints the smallest graph found that fails under the failure's choice, and the choice. */
void random_shrink(const random_job *job, const random_failure *failure);

#endif
