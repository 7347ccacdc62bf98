#ifndef MODELS_SHARE_H
#define MODELS_SHARE_H

/* A share of a whole, below 1, as a float that is also below 1: 0.99999999 would round to 1. */
static inline float share_of(double share) {
  const float rounded = (float)share;
  return share < 1 && rounded >= 1 ? 0x1.fffffep-1f : rounded;
}

#endif
