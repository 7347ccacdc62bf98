/* A table of layers by their last measurement, from lines "layers" and "end" of the metrics. */
#ifndef TOOLS_REPORT_LAYERS_H
#define TOOLS_REPORT_LAYERS_H

#include "report/history.h"

#include <stdio.h>

/* A table of a run; nothing if its layers were not measured. */
void layers_table(FILE *page, const history *h);

#endif
