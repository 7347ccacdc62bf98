/* A device with queues that take turns as badly as the order between them lets them: what is queued
 * in one of them is done only when something waits for it, all else at once. Code that forgets to
 * order something finds other bits, each time. One device at a time. */
#ifndef TESTS_FAULTS_ADVERSE_QUEUES_H
#define TESTS_FAULTS_ADVERSE_QUEUES_H

#include "backend/device.h"

/* From now on. The device must have memory of its own. */
void adverse_queues_wrap(ac_device *device, ac_queue late);

#endif
