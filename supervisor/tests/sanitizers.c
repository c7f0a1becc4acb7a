/* How the sanitizers of a test build behave: the supervisor's environment is emptied and its standard error goes nowhere. */
#ifndef REPORTS
#define REPORTS "stderr"
#endif

/* Leaks are not looked for: that takes ptrace, which the supervisor forbids, and what it holds when it exits is no leak. */
#define OPTIONS "detect_leaks=0:exitcode=99:log_path=" REPORTS

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return OPTIONS;
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:" OPTIONS;
}
