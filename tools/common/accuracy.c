#include "common/accuracy.h"

#include <math.h>
#include <string.h>

double accuracy_of(const ac_evaluation *evaluation) {
  for (int i = 0; i < evaluation->metric_count; i++)
    if (!strcmp(evaluation->metrics[i].name, "accuracy")) return evaluation->metrics[i].value;
  return evaluation->accuracy;
}

double mean_iou_of(const ac_evaluation *evaluation) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < evaluation->metric_count; i++) {
    const ac_metric *m = &evaluation->metrics[i];
    if (strncmp(m->name, "iou_", 4) != 0 || isnan(m->value)) continue;
    sum += m->value;
    count++;
  }
  return count ? sum / count : NAN;
}
