# SPDX-License-Identifier: Apache-2.0
"""The networks of the examples in PyTorch, for measurements beside Ringfire's (pytorch_zoo.py,
tests/accuracy)."""
import torch
import torch.nn.functional as F
from torch import nn

CLASSES, BLOCK, VOCABULARY = 10, 64, 96
PAIR, USERS, ITEMS = 16, 6040, 3706  # lengths of translations, rows of the tables


def cnn():
    """That of examples/custom_loop.c."""
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(1600, 64), nn.ReLU(), nn.Linear(64, CLASSES))


class Conv(nn.Sequential):
    """Convolution without a bias, batch normalization."""
    def __init__(self, inner, outer, stride=1):
        super().__init__(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer))


class Residual(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.halves = outer != inner
        self.first, self.second = Conv(inner, outer, 2 if self.halves else 1), Conv(outer, outer)

    def forward(self, x):
        y = self.second(F.relu(self.first(x)))
        if self.halves:
            x = x[:, :, ::2, ::2]
            x = torch.cat([x, torch.zeros_like(x)], 1)
        return F.relu(x + y)


def resnet():
    return nn.Sequential(Conv(1, 16), nn.ReLU(), Residual(16, 16), Residual(16, 32),
                         Residual(32, 64), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, CLASSES))


def activated(inner, outer, size):
    return [nn.BatchNorm2d(inner, eps=1e-3, momentum=0.01), nn.ReLU(),
            nn.Conv2d(inner, outer, size, padding=size // 2, bias=False)]


class Dense(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.added = nn.Sequential(*activated(channels, 4 * growth, 1),
                                   *activated(4 * growth, growth, 3))

    def forward(self, x):
        return torch.cat([x, self.added(x)], 1)


def densenet(growth=12, blocks=3, layers=2):
    channels = 2 * growth
    parts = [nn.Conv2d(1, channels, 3, padding=1, bias=False)]
    for b in range(blocks):
        for _ in range(layers):
            parts.append(Dense(channels, growth))
            channels += growth
        if b + 1 < blocks:
            parts += [*activated(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
    parts += [nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
              nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*parts)


class Cut(nn.Module):
    """Removes what a transposed convolution makes beyond twice its input."""
    def forward(self, x):
        return x[:, :, :-1, :-1]


class Vae(nn.Module):
    """That of examples/vae: logits of the image, mean and logarithm of the variance."""
    def __init__(self, filters=(32, 64), latent=2):
        super().__init__()
        a, b = filters
        self.encoder = nn.Sequential(nn.Conv2d(1, a, 3, 2), nn.ReLU(), nn.Conv2d(a, b, 3, 2),
                                     nn.ReLU(), nn.Flatten(), nn.Linear(36 * b, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 49 * a), nn.ReLU(),
                                     nn.Unflatten(1, (a, 7, 7)), nn.ConvTranspose2d(a, b, 3, 2),
                                     Cut(), nn.ReLU(),
                                     nn.ConvTranspose2d(b, a, 3, 2), Cut(), nn.ReLU(),
                                     nn.ConvTranspose2d(a, 1, 3, 1, 1))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        return self.decoder(mean
                            + torch.exp(log_variance / 2) * torch.randn_like(
                                mean)), mean, log_variance


def vae_loss(outputs, images):
    logits, mean, log_variance = outputs
    divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum() / 2
    return (F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
            + divergence) / len(images)


class Gain(nn.Module):
    """Layer normalization without a bias."""
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.gamma.shape, self.gamma, None, 1e-5)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(Gain(width) for _ in range(2))
        self.qkv, self.output = nn.Linear(width, 3 * width,
                                          bias=False), nn.Linear(width, width, bias=False)
        self.expand, self.contract = nn.Linear(width, 4 * width,
                                               bias=False), nn.Linear(4 * width, width, bias=False)
        self.register_buffer("later", torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1))

    def forward(self, x):
        query, key, value = (p.unflatten(2, (self.heads, -1)).transpose(1, 2)
                             for p in self.qkv(self.norms[0](x)).chunk(3, dim=2))
        scores = query @ key.transpose(2, 3) / (query.shape[3] ** 0.5)
        mixed = scores.masked_fill(self.later, -torch.inf).softmax(3) @ value
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(F.gelu(self.expand(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=VOCABULARY, layers=4, heads=4, width=128):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(
            torch.randn(BLOCK, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = Gain(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / (2 * layers) ** 0.5 if "output" in name
                                or "contract" in name else 0.02)

    def forward(self, x):
        return (self.norm(self.blocks(self.tokens(x)
                                      + self.positions)) @ self.tokens.weight.T).flatten(0, 1)


class BertLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.expand, self.contract = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, x, hidden):
        query, key, value = (part(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
                             for part in (self.query, self.key, self.value))
        scores = (query @ key.transpose(2, 3) / query.shape[3] ** 0.5).masked_fill(
            hidden, -torch.inf)
        x = self.norms[0](x + self.output((scores.softmax(3) @ value).transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.contract(F.gelu(self.expand(x), approximate="tanh")))


class Bert(nn.Module):
    vocabulary, length, predictions = 8192, 64, 10

    def __init__(self, layers=2, heads=2, width=128, inner=512):
        super().__init__()
        self.words, self.segments = nn.Embedding(self.vocabulary, width), nn.Embedding(2, width)
        self.places = nn.Parameter(torch.randn(self.length, width) * 0.02)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads, inner) for _ in range(layers))
        self.pooler, self.next = nn.Linear(width, width), nn.Linear(width, 2)
        self.transform, self.transform_norm = nn.Linear(width, width), nn.LayerNorm(
            width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(self.vocabulary))

    def forward(self, tokens, segments, masked):
        hidden = (tokens == 0)[:, None, None]
        x = self.norm(self.words(tokens) + self.places + self.segments(segments))
        for layer in self.layers:
            x = layer(x, hidden)
        there = x.gather(1, masked[:, :, None].expand(-1, -1, x.shape[2]))
        there = self.transform_norm(F.gelu(self.transform(there), approximate="tanh"))
        return (there @ self.words.weight.T
                + self.bias).flatten(0, 1), self.next(torch.tanh(self.pooler(x[:, 0])))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key_value, self.output = nn.Linear(width, width), nn.Linear(
            width, 2 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-3)

    def forward(self, x, memory, hidden=None):
        def split(y):
            return y.unflatten(2, (self.heads, -1)).transpose(1, 2)

        query = split(self.query(x))
        key, value = (split(y) for y in self.key_value(memory).chunk(2, dim=2))
        scores = query @ key.transpose(2, 3) / (query.shape[3] ** 0.5)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return self.norm(x + self.output((scores.softmax(3) @ value).transpose(1, 2).flatten(2)))


class Perceptron(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.expand, self.contract, self.norm = nn.Linear(width, inner), nn.Linear(
            inner, width), nn.LayerNorm(width, eps=1e-3)

    def forward(self, x):
        return self.norm(x + self.contract(F.relu(self.expand(x))))


class Transformer(nn.Module):
    vocabulary = 4000

    def __init__(self, layers=2, heads=4, width=128, inner=256):
        super().__init__()
        self.source, self.target = nn.Embedding(self.vocabulary,
                                                width), nn.Embedding(self.vocabulary, width)
        self.encoder = nn.ModuleList(
            nn.ModuleList([Attention(width, heads), Perceptron(width, inner)])
            for _ in range(layers))
        self.decoder = nn.ModuleList(
            nn.ModuleList([Attention(width, heads), Attention(width, heads),
                           Perceptron(width, inner)])
                                     for _ in range(layers))
        self.classifier = nn.Linear(width, self.vocabulary)
        self.register_buffer("later", torch.ones(PAIR, PAIR, dtype=torch.bool).triu(1))
        self.register_buffer("positions", torch.randn(PAIR, width))

    def forward(self, source, target):
        memory = self.source(source) * self.source.embedding_dim ** 0.5 + self.positions
        x = self.target(target) * self.target.embedding_dim ** 0.5 + self.positions
        for attention, perceptron in self.encoder:
            memory = perceptron(attention(memory, memory))
        for own, cross, perceptron in self.decoder:
            x = perceptron(cross(own(x, x, self.later), memory))
        return self.classifier(x).flatten(0, 1)


class Gru(nn.Module):
    vocabulary = 2000

    def __init__(self, units=128, width=64):
        super().__init__()
        self.source, self.target = nn.Embedding(self.vocabulary,
                                                width), nn.Embedding(self.vocabulary, width)
        self.encoder, self.cell = nn.GRU(width, units,
                                         batch_first=True), nn.GRUCell(units + width, units)
        self.memory, self.query, self.score = nn.Linear(units, units), nn.Linear(
            units, units), nn.Linear(units, 1)
        self.classifier = nn.Linear(units, self.vocabulary)

    def forward(self, source, target):
        memory, last = self.encoder(self.source(source))
        keys, tokens, state, states = self.memory(memory), self.target(target), last[0], []
        for i in range(PAIR):
            seen = self.score(torch.tanh(keys + self.query(state)[:, None])).softmax(1)
            state = self.cell(torch.cat([(seen * memory).sum(1), tokens[:, i]], 1), state)
            states.append(state)
        return self.classifier(torch.stack(states, 1)).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self, vocabulary=1000, width=64, units=64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, units, batch_first=True, bidirectional=True)
        self.dense, self.logit = nn.Linear(2 * units, 64), nn.Linear(64, 1)

    def forward(self, x):
        _, (last, _) = self.lstm(self.tokens(x))
        return self.logit(F.relu(self.dense(torch.cat([last[0], last[1]], 1))))


class Ncf(nn.Module):
    def __init__(self, factors=8, layers=(64, 32, 16, 8)):
        super().__init__()
        self.factors = nn.ModuleList(nn.Embedding(rows, factors) for rows in (USERS, ITEMS))
        self.features = nn.ModuleList(nn.Embedding(rows, layers[0] // 2) for rows in (USERS, ITEMS))
        self.perceptron = nn.Sequential(*(part for a, b in zip(layers, layers[1:])
                                          for part in (nn.Linear(a, b), nn.ReLU())))
        self.logit = nn.Linear(factors + layers[-1], 1)

    def forward(self, user, item):
        features = self.perceptron(torch.cat([self.features[0](user), self.features[1](item)], 1))
        return self.logit(torch.cat([self.factors[0](user) * self.factors[1](item), features], 1))


NETWORKS = {"cnn": cnn, "resnet": resnet, "densenet": densenet, "vae": Vae, "gpt": Gpt,
            "bert": Bert, "transformer": Transformer, "gru": Gru, "lstm": Lstm, "ncf": Ncf}
