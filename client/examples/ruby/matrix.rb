# frozen_string_literal: true

# What these examples need of row-major matrices, as flat arrays: whether A = QR.
module Matrix
  module_function

  # Seeded normal numbers.
  def normal(count, seed)
    random = Random.new(seed)
    Array.new(count) do
      Math.sqrt(-2 * Math.log(1 - random.rand)) * Math.cos(2 * Math::PI * random.rand)
    end
  end

  # |A-QR|/|A| and |Q'Q-I|, Frobenius norms, of one m x n matrix.
  def residuals(a, q, r, n)
    a, q, r = [a, q, r].map { |values| values.each_slice(n).to_a }
    columns_of_r = r.transpose
    difference = a.zip(q).sum do |row, row_of_q|
      row.zip(columns_of_r).sum { |value, column| (value - dot(row_of_q, column))**2 }
    end
    columns = q.transpose
    orthogonality = columns.each_with_index.sum do |x, i|
      columns.each_with_index.sum { |y, j| (dot(x, y) - (i == j ? 1 : 0))**2 }
    end
    [Math.sqrt(difference) / norm(a.flatten), Math.sqrt(orthogonality)]
  end

  # The same for a large matrix: |Ax-Q(Rx)|/|Ax| and |Q'(Qx)-x|/|x| with a random x.
  def residuals_on_vector(a, q, r, n)
    x = normal(n, 99)
    ax = times(a, x)
    [distance(times(q, times(r, x)), ax), distance(times_transposed(q, times(q, x), n), x)]
  end

  def times(a, x)
    a.each_slice(x.size).map { |row| dot(row, x) }
  end

  def times_transposed(a, x, n)
    y = Array.new(n, 0.0)
    a.each_slice(n).with_index { |row, i| n.times { |j| y[j] += row[j] * x[i] } }
    y
  end

  def distance(x, from)
    norm(x.zip(from).map { |one, other| one - other }) / norm(from)
  end

  def norm(x)
    Math.sqrt(dot(x, x))
  end

  def dot(x, y)
    sum = 0.0
    x.each_with_index { |value, i| sum += value * y[i] }
    sum
  end
end
