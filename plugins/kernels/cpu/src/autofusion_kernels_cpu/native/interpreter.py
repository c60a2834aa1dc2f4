"""The interpreter of step tables, as IR: it runs a whole program on all threads in one foreign call.

Why native: synchronising threads from Python costs 45 us a step, here it is 0.05 us. A step is 32 bytes, `{function,
buffers, params, flags}`; bit 0 of the flags asks for a barrier after it. Every thread walks the same table and kernels
share their work by thread number.

Waiting is a bounded spin and then a sleep. Pure spinning stalls for whole time slices when another process takes a
core: the thread that everyone waits for may be queued behind the ones that spin. Sleeping is a futex on Linux;
elsewhere a short sleep through a function whose address is in the context (`sleep_function`), which needs no wake-up
call.

The sleep protocol: a sleeper counts itself (sequentially consistent), then sleeps only if the word still has the old
value; the waker changes the word (sequentially consistent), then looks at the count. Any weaker order can lose a
wake-up.
"""

from __future__ import annotations

from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.native.context import (
    ARRIVED,
    BARRIER_SLEEPERS,
    BARRIER_SPINS,
    FLUSH,
    GENERATION,
    IDLE_SPINS,
    SLEEP_ARGUMENT,
    SLEEP_FUNCTION,
    SLEEPERS,
    STEP_COUNT,
    STEPS,
    STOP,
    THREADS,
    TIMES,
)

_PAUSE = {
    True: 'call void asm sideeffect "pause", "~{memory}"()',
    False: 'call void asm sideeffect "isb", "~{memory}"()',
}
_CLOCK = {True: "llvm.readcyclecounter", False: "llvm.readsteadycounter"}
_FUTEX = {
    True: (202, '"syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},~{rcx},~{r11},~{memory}"'),
    False: (98, '"svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},~{memory}"'),
}

# x86: MXCSR, where bit 15 flushes results and bit 6 takes operands for zero; ARM: FPCR, where bit 24 does both.
_SET_MODE = {
    True: """%old = alloca i32
  %new = alloca i32
  call void asm sideeffect "stmxcsr $0", "=*m,~{memory}"(ptr elementtype(i32) %old)
  %was = load i32, ptr %old
  %mode = or i32 %was, 32832
  store i32 %mode, ptr %new
  call void asm sideeffect "ldmxcsr $0", "*m,~{memory}"(ptr elementtype(i32) %new)""",
    False: """%was = call i64 asm sideeffect "mrs $0, fpcr", "=r,~{memory}"()
  %mode = or i64 %was, 16777216
  call void asm sideeffect "msr fpcr, $0", "r,~{memory}"(i64 %mode)""",
}
_RESTORE_MODE = {
    True: 'call void asm sideeffect "ldmxcsr $0", "*m,~{memory}"(ptr elementtype(i32) %old)',
    False: 'call void asm sideeffect "msr fpcr, $0", "r,~{memory}"(i64 %was)',
}

_FUTEX_SLEEP = """
define internal i64 @futex(ptr %word, i64 %operation, i64 %value) noinline nounwind {
  %address = ptrtoint ptr %word to i64
  %r = call i64 asm sideeffect FUTEX_ASM(i64 FUTEX_NUMBER, i64 %address, i64 %operation, i64 %value, i64 0)
  ret i64 %r
}
define internal void @sleep(ptr %context, ptr %word, i32 %old) noinline nounwind {
  %value = zext i32 %old to i64
  %r = call i64 @futex(ptr %word, i64 128, i64 %value)
  ret void
}
define internal void @wake(ptr %word) noinline nounwind {
  %r = call i64 @futex(ptr %word, i64 129, i64 2147483647)
  ret void
}
"""

_PORTABLE_SLEEP = """
define internal void @sleep(ptr %context, ptr %word, i32 %old) noinline nounwind {
  %fa = getelementptr i8, ptr %context, i64 SLEEP_FUNCTION
  %f = load ptr, ptr %fa
  %aa = getelementptr i8, ptr %context, i64 SLEEP_ARGUMENT
  %a = load i32, ptr %aa
  call void %f(i32 %a)
  ret void
}
define internal void @wake(ptr %word) noinline nounwind {
  ret void
}
"""

_CORE = """
declare i64 @CLOCK()

; Wait until the word differs from %old, counting this thread in %sleepers while it sleeps.
define internal void @await(ptr %context, ptr %word, ptr %sleepers, i32 %old, i64 %limit) noinline nounwind {
  br label %spin
spin:
  %k = phi i64 [ 0, %0 ], [ %k1, %again ], [ 0, %doze ]
  %v = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %v, %old
  br i1 %changed, label %out, label %still
still:
  %tired = icmp uge i64 %k, %limit
  br i1 %tired, label %doze, label %again
again:
  PAUSE
  %k1 = add i64 %k, 1
  br label %spin
doze:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @sleep(ptr %context, ptr %word, i32 %old)
  %less = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %spin
out:
  ret void
}

; Advance the word and wake whoever sleeps on it.
define internal void @announce(ptr %word, ptr %sleepers) noinline nounwind {
  %old = atomicrmw add ptr %word, i32 1 seq_cst
  %n = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %n, 0
  br i1 %any, label %rouse, label %out
rouse:
  call void @wake(ptr %word)
  br label %out
out:
  ret void
}

define internal void @barrier(ptr %c, i64 %threads) noinline nounwind {
  %arrived = getelementptr i8, ptr %c, i64 ARRIVED
  %generation = getelementptr i8, ptr %c, i64 GENERATION
  %sleepers = getelementptr i8, ptr %c, i64 BARRIER_SLEEPERS
  %g = load atomic i32, ptr %generation monotonic, align 4
  %before = atomicrmw add ptr %arrived, i32 1 acq_rel
  %n = trunc i64 %threads to i32
  %here = add i32 %before, 1
  %last = icmp eq i32 %here, %n
  br i1 %last, label %open, label %hold
open:
  store atomic i32 0, ptr %arrived monotonic, align 4
  call void @announce(ptr %generation, ptr %sleepers)
  ret void
hold:
  %la = getelementptr i8, ptr %c, i64 BARRIER_SPINS
  %limit = load i64, ptr %la
  call void @await(ptr %c, ptr %generation, ptr %sleepers, i32 %g, i64 %limit)
  ret void
}

; Run the program, with denormals taken for zero if the context says so: as the thread had it before, afterwards.
define internal void @interpret(ptr %c, i64 %thread) noinline nounwind {
  %fl = getelementptr i8, ptr %c, i64 FLUSH
  %flush = load i64, ptr %fl
  %asked = icmp ne i64 %flush, 0
  br i1 %asked, label %set, label %plain
plain:
  call void @walk(ptr %c, i64 %thread)
  ret void
set:
  SET_MODE
  call void @walk(ptr %c, i64 %thread)
  RESTORE_MODE
  ret void
}

define internal void @walk(ptr %c, i64 %thread) noinline nounwind {
  %sa = getelementptr i8, ptr %c, i64 STEPS
  %steps = load ptr, ptr %sa
  %na = getelementptr i8, ptr %c, i64 STEP_COUNT
  %n = load i64, ptr %na
  %ta = getelementptr i8, ptr %c, i64 THREADS
  %threads = load i64, ptr %ta
  %tta = getelementptr i8, ptr %c, i64 TIMES
  %times = load ptr, ptr %tta
  %alone = icmp eq i64 %threads, 1
  %timed = icmp ne ptr %times, null
  %first = icmp eq i64 %thread, 0
  %record = and i1 %timed, %first
  br i1 %record, label %begin, label %loop
begin:
  %now0 = call i64 @CLOCK()
  store i64 %now0, ptr %times
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ 0, %begin ], [ %i1, %next ]
  %so = shl i64 %i, 5
  %s = getelementptr i8, ptr %steps, i64 %so
  %function = load ptr, ptr %s
  %ba = getelementptr i8, ptr %s, i64 8
  %buffers = load ptr, ptr %ba
  %pa = getelementptr i8, ptr %s, i64 16
  %params = load ptr, ptr %pa
  %fa = getelementptr i8, ptr %s, i64 24
  %flags = load i64, ptr %fa
  call void %function(ptr %buffers, ptr %params, i64 %thread, i64 %threads)
  %f1 = and i64 %flags, 1
  %free = icmp eq i64 %f1, 0
  %skip = or i1 %free, %alone
  br i1 %skip, label %stamp, label %meet
meet:
  call void @barrier(ptr %c, i64 %threads)
  br label %stamp
stamp:
  %i1 = add i64 %i, 1
  br i1 %record, label %write, label %next
write:
  %now = call i64 @CLOCK()
  %slot = getelementptr i64, ptr %times, i64 %i1
  store i64 %now, ptr %slot
  br label %next
next:
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; A worker's life: wait for the next epoch, run the program, again.
define void @"worker$"(ptr %c, i64 %thread) nounwind {
  %sleepers = getelementptr i8, ptr %c, i64 SLEEPERS
  %la = getelementptr i8, ptr %c, i64 IDLE_SPINS
  %xa = getelementptr i8, ptr %c, i64 STOP
  br label %idle
idle:
  %epoch = phi i32 [ 0, %0 ], [ %following, %work ]
  %limit = load i64, ptr %la
  call void @await(ptr %c, ptr %c, ptr %sleepers, i32 %epoch, i64 %limit)
  %stop = load i64, ptr %xa
  %leave = icmp ne i64 %stop, 0
  br i1 %leave, label %out, label %work
work:
  ; The caller cannot announce another epoch before this worker has met it at the last step's barrier.
  %following = add i32 %epoch, 1
  call void @interpret(ptr %c, i64 %thread)
  br label %idle
out:
  ret void
}

; The caller's side: let the workers go and take part as thread 0. Returns when all are done.
define void @"run$"(ptr %c) nounwind {
  %ta = getelementptr i8, ptr %c, i64 THREADS
  %threads = load i64, ptr %ta
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %work, label %release
release:
  %sleepers = getelementptr i8, ptr %c, i64 SLEEPERS
  call void @announce(ptr %c, ptr %sleepers)
  br label %work
work:
  call void @interpret(ptr %c, i64 0)
  ret void
}

; Let the workers go with the stop word set: they leave.
define void @"release$"(ptr %c) nounwind {
  %sleepers = getelementptr i8, ptr %c, i64 SLEEPERS
  call void @announce(ptr %c, ptr %sleepers)
  ret void
}

define i64 @"clock$"() nounwind {
  %now = call i64 @CLOCK()
  ret i64 %now
}
"""


class InterpreterModule(Module):
    """The interpreter for an instruction set; `futex` chooses how threads sleep (Linux only)."""

    def __init__(self, isa: Isa, futex: bool) -> None:
        super().__init__(isa)
        self.futex = futex

    @property
    def exports(self) -> list[str]:
        return ["run", "worker", "release", "clock"]

    def text(self, suffix: str = "") -> str:
        number, assembly = _FUTEX[self.isa.is_x86]
        text = _CORE + (_FUTEX_SLEEP if self.futex else _PORTABLE_SLEEP)
        words = {
            "FUTEX_ASM": assembly,
            "FUTEX_NUMBER": str(number),
            "PAUSE": _PAUSE[self.isa.is_x86],
            "CLOCK": _CLOCK[self.isa.is_x86],
            "BARRIER_SLEEPERS": str(BARRIER_SLEEPERS),
            "BARRIER_SPINS": str(BARRIER_SPINS),
            "SET_MODE": _SET_MODE[self.isa.is_x86],
            "RESTORE_MODE": _RESTORE_MODE[self.isa.is_x86],
            "FLUSH": str(FLUSH),
            "SLEEP_FUNCTION": str(SLEEP_FUNCTION),
            "SLEEP_ARGUMENT": str(SLEEP_ARGUMENT),
            "STEP_COUNT": str(STEP_COUNT),
            "SLEEPERS": str(SLEEPERS),
            "STEPS": str(STEPS),
            "THREADS": str(THREADS),
            "TIMES": str(TIMES),
            "STOP": str(STOP),
            "IDLE_SPINS": str(IDLE_SPINS),
            "ARRIVED": str(ARRIVED),
            "GENERATION": str(GENERATION),
            '$"(': f'{suffix}"(',
        }
        for word, value in words.items():
            text = text.replace(word, value)
        return text
