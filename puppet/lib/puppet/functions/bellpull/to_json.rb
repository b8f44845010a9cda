# frozen_string_literal: true

require 'json'

# @summary A value as JSON text, for the module's own files.
# @api private
Puppet::Functions.create_function(:'bellpull::to_json') do
  # @param value Any value of JSON's types.
  # @return [String] its JSON, on one line.
  dispatch :generate do
    param 'Data', :value
    return_type 'String'
  end

  def generate(value)
    "#{JSON.generate(value)}\n"
  end
end
