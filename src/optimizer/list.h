/* The optimizers: each kind of ac_optimizer_kind, and the file that has its row. */
#ifndef AC_OPTIMIZER_LIST_H
#define AC_OPTIMIZER_LIST_H

#define AC_OPTIMIZERS(X)     \
  X(AC_ADAMW, adamw)         \
  X(AC_SGD, sgd)             \
  X(AC_LION, lion)           \
  X(AC_ADAFACTOR, adafactor) \
  X(AC_MUON, muon)           \
  X(AC_ADAM_MINI, adam_mini) \
  X(AC_OPTIMIZER_CALLBACK, callback)

#endif
