#include "common/accuracy.h"

#include <string.h>

double accuracy_of(const ac_evaluation *evaluation) {
  for (int i = 0; i < evaluation->metric_count; i++)
    if (!strcmp(evaluation->metrics[i].name, "accuracy")) return evaluation->metrics[i].value;
  return evaluation->accuracy;
}
