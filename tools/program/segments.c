#include "program/segments.h"

#include <math.h>
#include <string.h>

bool segments_answer(const float *logits, int64_t classes, int64_t pixels, uint8_t *answer) {
  bool finite = true;
  memset(answer, 0, (size_t)pixels);
  for (int64_t c = 0; c < classes; c++)
    for (int64_t p = 0; p < pixels; p++) {
      const float value = logits[c * pixels + p];
      finite = finite && isfinite(value);
      if (value > logits[answer[p] * pixels + p]) answer[p] = (uint8_t)c;
    }
  return finite;
}

void segments_count(const int32_t *mask, const uint8_t *answer, int64_t pixels, int64_t classes,
                    int64_t *confusion) {
  for (int64_t p = 0; p < pixels; p++)
    if (mask[p] < classes) confusion[mask[p] * classes + answer[p]]++;
}

double segments_iou(const int64_t *confusion, int64_t classes, int64_t class) {
  int64_t either = -confusion[class * classes + class];
  for (int64_t c = 0; c < classes; c++)
    either += confusion[class * classes + c] + confusion[c * classes + class];
  return either ? (double)confusion[class * classes + class] / (double)either : NAN;
}

double segments_mean_iou(const int64_t *confusion, int64_t classes) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < classes; c++) {
    const double iou = segments_iou(confusion, classes, c);
    if (isnan(iou)) continue;
    sum += iou;
    count++;
  }
  return count ? sum / (double)count : NAN;
}
