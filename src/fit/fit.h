/* The fit loop within the library. */
#ifndef AC_FIT_FIT_H
#define AC_FIT_FIT_H

#include "data/loader.h"
#include "window/trainer.h"

static inline bool ac_fit_goes_by_validation(const ac_trainer *trainer) {
  return trainer->desc.schedule.kind == AC_SCHEDULE_PLATEAU;
}

/* Refuses what makes no sense for this trainer. */
ac_status ac_fit_check(const ac_trainer *trainer, const ac_fit_desc *desc);
/* And a run that would not go on with the same samples in the same order, as far as that can be
 * seen. */
ac_status ac_fit_check_position(const ac_trainer *trainer, const ac_fit_desc *desc);

/* Describes ac_fit's loader. Its batches use the memory that the plan counts as read ahead. In
 * addition each thread and the caller have room for one sample of a field that nothing reads. */
ac_loader_desc ac_fit_loader(const ac_trainer *trainer, const ac_fit_desc *desc,
                             const ac_gathering *gather);

#endif
