#include "data/windows.h"

/* With incomplete windows dropped, one that cannot be filled begins in the next epoch. */
static ac_place skip_rest(const ac_windows *w, ac_place at) {
  if (w->epoch_end != AC_EPOCH_END_DROP || w->count - at.position >= w->batch) return at;
  return (ac_place){at.epoch + 1, 0};
}

ac_window ac_windows_lay(const ac_windows *w, ac_place from) {
  ac_window window = {.begin = skip_rest(w, from)};
  ac_place at = window.begin;
  while (window.count < w->batch && (!w->epochs || at.epoch < w->epochs)) {
    const int64_t rest = w->count - at.position, left = w->batch - window.count;
    const int64_t piece = left < rest ? left : rest;
    window.count += piece;
    at.position += piece;
    if (piece < rest) break;
    at = (ac_place){at.epoch + 1, 0};
    if (w->epoch_end != AC_EPOCH_END_CARRY) break;
  }
  window.next = skip_rest(w, at);
  return window;
}

ac_sample_key ac_windows_key(const ac_windows *w, ac_place begin, int64_t sample) {
  const int64_t position = begin.position + sample;
  ac_sample_key key = {.epoch = begin.epoch + position / w->count, .seed = w->seed};
  key.index = position % w->count;
  if (!w->no_shuffle) key.index = ac_shuffle(key.seed, key.epoch, key.index, w->count);
  return key;
}
