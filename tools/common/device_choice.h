/* Finds the device for --device auto without leaving anything in this process. */
#ifndef TOOLS_COMMON_DEVICE_CHOICE_H
#define TOOLS_COMMON_DEVICE_CHOICE_H

/* What to open: `name` itself; for auto, the name of the device that was chosen. */
const char *device_choose(const char *name);

#endif
