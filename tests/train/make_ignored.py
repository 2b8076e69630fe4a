# SPDX-License-Identifier: Apache-2.0
"""Prints the losses and the kernel of test_ignored.c as PyTorch computes them: cross-entropy of
sequences with ignore_index, the mean over the other labels, and plain SGD. Needs PyTorch (Debian:
python3-torch)."""
import torch
import torch.nn.functional as F

EXAMPLES, STEPS, FEATURES, CLASSES, IGNORED, RATE, EPOCHS = 8, 3, 2, 4, -100, 0.5, 3
x = torch.tensor([(i * 7 % 11 - 5) / 8 for i in range(EXAMPLES * STEPS * FEATURES)],
                 dtype=torch.float64).reshape(EXAMPLES, STEPS, FEATURES)
kernel = torch.tensor([(i * 5 % 7 - 3) / 4 for i in range(FEATURES * CLASSES)],
                      dtype=torch.float64).reshape(FEATURES, CLASSES).requires_grad_()
labels = torch.tensor([IGNORED if i < 12 and i % 4 or i % 9 == 8 else i * 3 % CLASSES
                       for i in range(EXAMPLES * STEPS)])
for _ in range(EPOCHS):
    logits = (x @ kernel).reshape(-1, CLASSES)
    loss = F.cross_entropy(logits, labels, ignore_index=IGNORED)
    gradient, = torch.autograd.grad(loss, kernel)
    print(f"loss {loss.item():.9g}")
    kernel = (kernel - RATE * gradient).detach().requires_grad_()
print("kernel", ", ".join(f"{value:.9g}" for value in kernel.detach().flatten().tolist()))
logits = (x @ kernel).reshape(-1, CLASSES)
counts = labels != IGNORED
print("labels", int(counts.sum()), "right", int((logits.argmax(1) == labels)[counts].sum()))
print(f"loss {F.cross_entropy(logits, labels, ignore_index=IGNORED).item():.9g}")
known = labels[counts]
own = logits[counts].gather(1, known[:, None])
print("among 2", int(((logits[counts] > own).sum(1) < 2).sum()))
for row in range(CLASSES):
    taken = logits.argmax(1)[labels == row]
    print("row", [int((taken == column).sum()) for column in range(CLASSES)])
