/* Results of a trainer: outputs of samples, computed in its memory (forward only, like an
 * evaluation, and nothing that a window needs is changed), and outputs of windows. */
#include "window/trainer.h"

#include "core/error.h"

#include <accrue/results.h>
#include <string.h>

ac_status ac_trainer_predict(ac_trainer *trainer, const char *name, int64_t count,
                             const ac_feed *feeds, int feed_count, int64_t elements, float *data) {
  AC_REQUIRE(trainer, name, data);
  if (feed_count > 0) AC_REQUIRE(feeds);
  ac_instance *instance = &trainer->instance;
  const ac_prediction wanted = {"trainer", name, count, elements, data};
  AC_TRY(ac_instance_check_usable(instance, "trainer"));
  AC_TRY(ac_trainer_check_arena(trainer));
  return ac_instance_predict(instance, &instance->prediction, instance->plan->predicted, &wanted,
                             feeds, feed_count);
}

ac_status ac_trainer_watch_tensor(ac_trainer *trainer, const char *name,
                                  ac_tensor_callback callback, void *user) {
  AC_REQUIRE(trainer, name);
  AC_TRY(ac_trainer_check_deciding(trainer));
  return ac_instance_watch(&trainer->instance, name, callback, user);
}

void ac_keep_tensor(void *buffer, const ac_tensor_view *view) {
  const ac_tensor_buffer *to = buffer;
  if (!to || !to->data || !view) return;
  const int64_t from = view->batched ? view->first * view->elements : 0,
                count = view->batched ? view->count * view->elements : view->elements,
                room = to->elements - from;
  if (room > 0)
    memcpy(to->data + from, view->data, (size_t)(count < room ? count : room) * sizeof *to->data);
}
