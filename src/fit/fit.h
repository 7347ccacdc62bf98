/* The fit loop within the library. */
#ifndef AC_FIT_FIT_H
#define AC_FIT_FIT_H

#include "data/loader.h"
#include "window/trainer.h"

/* Describes ac_fit's loader. Its batches use the memory that the plan counts as read ahead. In
 * addition each thread and the caller have room for one sample of a field that nothing reads. */
ac_loader_desc ac_fit_loader(const ac_trainer *trainer, const ac_fit_desc *desc,
                             const ac_gather *gather);

#endif
