"""Several processes that train one network together, started by ``torchrun``; otherwise one process.

Every process computes a part of each batch, and gradients are averaged; batch normalisation uses the statistics of the
whole batch. So the loss curve is that of one process with the same batch, up to rounding.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shiftgauge.errors import InputError


@dataclass(frozen=True)
class Group:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str | None = None) -> Group:
        """The group ``torchrun`` made (joined on the first call), or a group of one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not dist.is_initialized():
            cpu = device == "cpu" or not torch.cuda.is_available()
            dist.init_process_group("gloo" if cpu else "nccl")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this process prints and writes files."""
        return self.rank == 0

    def check(self, batch: int) -> None:
        """Refuse a batch that the processes cannot share evenly: the mean of their means would be wrong."""
        if batch % self.size:
            raise InputError(
                f"a batch of {batch} cannot be shared evenly by {self.size} processes; start a number that divides it"
            )

    def mean(self, value: Any) -> float:
        """A number averaged over the processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
            value /= self.size
        return float(value)

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()

    def wrap(self, network: Any, device: Any) -> Any:
        """The network as all processes train it; the same network in a group of one."""
        if self.size == 1:
            return network
        gpu = device.type == "cuda"
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network) if gpu else _with_sync_norms(network)
        return nn.parallel.DistributedDataParallel(network, device_ids=[device.index] if gpu else None)


def unwrap(network: Any) -> Any:
    """The network inside, whose weights have their plain names."""
    return network.module if isinstance(network, nn.parallel.DistributedDataParallel) else network


class SyncBatchNorm(nn.BatchNorm2d):  # type: ignore[misc]
    """Batch normalisation over the batches of all processes, on a CPU, where torch's own does not run."""

    def forward(self, x: Any) -> Any:
        """Shape (n, C, H, W) in and out; n must be the same in every process."""
        if not self.training:
            return super().forward(x)
        from torch.distributed.nn.functional import all_reduce

        count = x.numel() // x.shape[1] * dist.get_world_size()
        shape = (1, -1, 1, 1)
        mean = all_reduce(x.sum((0, 2, 3))) / count
        centred = x - mean.view(shape)
        variance = all_reduce((centred * centred).sum((0, 2, 3))) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / max(count - 1, 1), self.momentum)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale.view(shape) + self.bias.view(shape)


def _with_sync_norms(module: Any) -> Any:
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            norm = SyncBatchNorm(child.num_features, child.eps, child.momentum)
            norm.load_state_dict(child.state_dict())
            # The same tensors, not copies: an optimiser may refer to them already.
            norm.weight, norm.bias = child.weight, child.bias
            setattr(module, name, norm)
        else:
            _with_sync_norms(child)
    return module
