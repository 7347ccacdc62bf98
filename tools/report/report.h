/* `accrue report`: one page about one or several runs. argv[0] is the first argument after the
 * command's name; the result is the exit status. */
#ifndef TOOLS_REPORT_REPORT_H
#define TOOLS_REPORT_REPORT_H

int report_main(int argc, char **argv);

#endif
